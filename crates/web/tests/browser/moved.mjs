// Clicks on a card that an update has just moved, and prints the number of forms sent.
// Usage: node moved.mjs ORIGIN, with NODE_MODULES, CHROMIUM and TOKEN in the environment.
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
  await page.goto(`${origin}/ui/inbox`, { waitUntil: "load" });
  const approve = '[data-row="a-default-aap-1"] [data-key-approve]';
  await page.waitForSelector(approve);
  await page.evaluate((approve) => {
    window.sent = 0;
    document.addEventListener(
      "submit",
      (event) => {
        event.preventDefault();
        window.sent += 1;
      },
      true,
    );
    const press = (detail) => {
      const click = new MouseEvent("click", { bubbles: true, cancelable: true, detail });
      document.querySelector(approve).dispatchEvent(click);
    };
    const top = () => document.querySelector(approve).getBoundingClientRect().top;
    const before = top();
    const watch = (_, observer) => {
      if (!document.querySelector('[data-row="q-fix-42-8"]')) return;
      observer.disconnect();
      const notice = document.querySelector("[data-notice]");
      press(1);
      window.moved = `moved ${top() > before}, sent ${window.sent}, ${notice.hidden ? "silent" : "told"}`;
      // A key answers the selected card at any position.
      press(0);
      window.byKey = `by key, sent ${window.sent}`;
    };
    new MutationObserver(watch).observe(document.querySelector("main"), { childList: true, subtree: true });
  }, approve);
  // Wait until the card can be answered.
  await new Promise((resolve) => setTimeout(resolve, 1000));
  console.log("ready");
  await page.waitForFunction(() => window.byKey);
  console.log(await page.evaluate(() => window.moved));
  console.log(await page.evaluate(() => window.byKey));
  await new Promise((resolve) => setTimeout(resolve, 1000));
  // Click at a position: an update can replace the element.
  const [x, y] = await page.$eval(approve, (button) => {
    button.scrollIntoView({ block: "center" });
    const { left, top, width, height } = button.getBoundingClientRect();
    return [left + width / 2, top + height / 2];
  });
  await page.mouse.click(x, y);
  console.log(`later, sent ${await page.evaluate(() => window.sent)}`);
} finally {
  await browser.close();
}
