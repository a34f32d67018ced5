// Types into the inbox while it is updated, and prints the values of the fields.
// Usage: node keep.mjs ORIGIN, with NODE_MODULES, CHROMIUM and TOKEN in the environment.
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
  const [reason, box] = ["#reason-q-fix-42-7", '[data-row="q-fix-42-8"] [name=all]'];
  const typed = () => page.$eval(reason, (one) => one.value);
  const ticked = () => page.$eval(box, (one) => one.checked);
  const blur = () => page.evaluate(() => document.activeElement.blur());
  const questions = (count) =>
    page.waitForFunction((count) => document.querySelectorAll(".question").length === count, {}, count);
  /** Whether the first card shows this number of equal questions. */
  const showsCount = (reason, count) =>
    document.querySelector(reason).form.textContent.includes(`Answer all ${count} equal questions`);
  await page.type(reason, "because");
  await page.click(box);
  await blur();
  console.log(`typed ${await typed()}, ticked ${await ticked()}`);
  await questions(3);
  await page.waitForFunction(showsCount, {}, reason, 3);
  console.log(`updated, typed ${await typed()}, ticked ${await ticked()}`);
  // A focused field is not updated; a new question accepts no answer.
  await page.focus(reason);
  await page.evaluate(() => {
    const watch = (_, observer) => {
      const button = document.querySelector('[data-row="q-fix-42-10"] [data-key-approve]');
      if (!button) return;
      observer.disconnect();
      button.form.addEventListener("submit", (event) => event.preventDefault());
      button.click();
      window.fresh = button.form.dataset.sent ? "sent" : "not sent";
    };
    new MutationObserver(watch).observe(document.querySelector("main"), { childList: true, subtree: true });
  });
  console.log("in use");
  await questions(4);
  console.log(`postponed ${await page.evaluate(showsCount, reason, 3)}, ${await page.evaluate(() => window.fresh)}`);
  await blur();
  await page.waitForFunction(showsCount, {}, reason, 4);
  console.log(`made up for, typed ${await typed()}`);
} finally {
  await browser.close();
}
