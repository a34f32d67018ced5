// Copies the next command of a run, the address of an event, and the digest and the input of a question, and prints
// whether they are in the clipboard.
// Usage: node copy.mjs ORIGIN, with NODE_MODULES, CHROMIUM and TOKEN in the environment.
import { createRequire } from "node:module";
import { join } from "node:path";

const [origin] = process.argv.slice(2);
const require = createRequire(join(process.env.NODE_MODULES, "x.js"));
const puppeteer = require("puppeteer-core");
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu"],
});
try {
  const page = await browser.newPage();
  page.setDefaultNavigationTimeout(300000);
  page.setDefaultTimeout(300000);
  await page.goto(`${origin}/ui/sign-in`, { waitUntil: "load" });
  await page.focus("input[name=token]");
  await page.keyboard.type(process.env.TOKEN);
  await Promise.all([page.waitForNavigation({ waitUntil: "load" }), page.keyboard.press("Enter")]);
  const permissions = ["clipboard-read", "clipboard-write", "clipboard-sanitized-write"];
  await browser.defaultBrowserContext().overridePermissions(origin, permissions);
  const address = `${origin}/ui/local/fix-42`;
  await page.goto(address, { waitUntil: "load" });
  await page.bringToFront();
  const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
  const waitUntilCopied = () =>
    page.waitForFunction(() => document.querySelector("[data-copied]").textContent === "Copied");
  await page.click(".next .copy");
  await waitUntilCopied();
  const command = await page.$eval(".next code", (code) => code.textContent);
  console.log(`command ${(await clipboard()) === command}`);
  // By keyboard: the button of an event is visible when its number has the focus.
  await page.waitForFunction(() => document.querySelector("[data-copied]").textContent === "");
  const isShown = () => page.$eval("#e1 > .copy", (button) => button.checkVisibility());
  const before = await isShown();
  await page.focus("#e1 .mark");
  console.log(`shown ${before}, then ${await isShown()}`);
  await page.focus("#e1 > .copy");
  await page.keyboard.press("Enter");
  await waitUntilCopied();
  console.log(`event ${(await clipboard()) === `${address}?event=1#e1`}`);
  // Copying works at once on a new card; only its answers wait.
  await page.goto(`${origin}/ui/inbox`, { waitUntil: "load" });
  await page.click(".question code[title] + .copy");
  await waitUntilCopied();
  const digest = await page.$eval(".question code[title]", (code) => code.title);
  console.log(`digest ${(await clipboard()) === digest}`);
  await page.waitForFunction(() => document.querySelector("[data-copied]").textContent === "");
  await page.click(".question .payload .copy");
  await waitUntilCopied();
  const input = await page.$eval(".question .payload pre", (pre) => pre.textContent);
  console.log(`input ${(await clipboard()) === input}`);
  await page.goto(address, { waitUntil: "load" });
  // Without JavaScript, the buttons are hidden.
  const visible = () => page.$$eval("button.copy", (buttons) => buttons.filter((one) => one.checkVisibility()).length);
  console.log(`with script ${(await visible()) > 0}`);
  await page.setJavaScriptEnabled(false);
  await page.goto(address, { waitUntil: "load" });
  console.log(`without script ${(await visible()) > 0}`);
} finally {
  await browser.close();
}
