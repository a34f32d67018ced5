// A real OpenID provider on a loopback port. The person at the browser is named by the header `x-person`.
import http from 'node:http';

const [library, redirectUri] = process.argv.slice(-2);
const { Provider } = await import(library);
const groups = { ada: ['platform', 'reviewers'], grace: ['reviewers'], eve: [] };
const server = http.createServer();

server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const hour = () => 3600;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'bailiwick',
        client_secret: 'only for tests: a+b/c',
        redirect_uris: [redirectUri],
        grant_types: ['authorization_code', 'urn:ietf:params:oauth:grant-type:device_code'],
      },
      { client_id: 'other', client_secret: 'other', redirect_uris: [redirectUri] },
    ],
    features: { deviceFlow: { enabled: true }, devInteractions: { enabled: false } },
    claims: { openid: ['sub'], groups: ['groups'] },
    cookies: { keys: ['only for tests'] },
    pkce: { required: () => true },
    ttl: { AccessToken: hour, DeviceCode: hour, Grant: hour, IdToken: hour, Interaction: hour, Session: hour },
    findAccount: (context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, groups: groups[id] ?? [] }),
    }),
    loadExistingGrant: async ({ oidc }) => {
      const names = { clientId: oidc.client.clientId, accountId: oidc.session.accountId };
      const grant = new oidc.provider.Grant(names);
      grant.addOIDCScope('openid groups');
      await grant.save();
      return grant;
    },
    interactions: { url: (context, interaction) => `/interaction/${interaction.uid}` },
  });
  provider.use(async (context, next) => {
    if (!context.path.startsWith('/interaction/')) return next();
    const person = context.get('x-person');
    const answer = person ? { login: { accountId: person } } : { error: 'access_denied' };
    context.respond = false;
    await provider.interactionFinished(context.req, context.res, answer);
  });
  server.on('request', provider.callback());
  console.log(issuer);
});
