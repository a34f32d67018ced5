// A person opens the address of a device flow, signs in and confirms the code. Arguments: address, code, person.
const [address, code, person] = process.argv.slice(-3);
const cookies = new Map();

async function request(url, form) {
  const headers = { 'x-person': person };
  if (cookies.size) headers.cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const body = form && new URLSearchParams(form);
  const response = await fetch(url, { method: body ? 'POST' : 'GET', headers, body, redirect: 'manual' });
  for (const cookie of response.headers.getSetCookie()) {
    const [name, ...value] = cookie.split(';')[0].split('=');
    if (value.join('=')) cookies.set(name, value.join('='));
    else cookies.delete(name);
  }
  const next = response.headers.get('location');
  if (next) return request(new URL(next, url));
  return response.text();
}

const page = await request(address);
const xsrf = /name="xsrf" value="([^"]+)"/.exec(page)?.[1];
if (!xsrf) throw new Error(`the page has no form: ${page}`);
const end = await request(new URL(new URL(address).pathname, address), { xsrf, user_code: code, confirm: 'yes' });
if (!end.includes('Sign-in Success')) throw new Error(`it was not confirmed: ${end}`);
