// Lets two hours pass on the inbox, and prints what the times of a question say then.
// Usage: node times.mjs ORIGIN, with NODE_MODULES, CHROMIUM and TOKEN in the environment.
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
  await page.evaluateOnNewDocument(() => {
    const [now, interval] = [Date.now, window.setInterval];
    // The clock of this browser is a day ahead.
    window.passed = 86400000;
    Date.now = () => now() + window.passed;
    window.setInterval = (work, time) => interval(work, Math.min(time, 100));
  });
  await page.goto(`${origin}/ui/inbox`, { waitUntil: "load" });
  // Long enough for the times to be shown again, and for the question to be read.
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const times = () => page.$$eval(".question time", (all) => all.map((time) => time.textContent).join(", "));
  console.log(await times());
  await page.evaluate(() => (window.passed += 2 * 3600000 + 60000));
  // In one step: an update can come between two.
  const shown = await page.waitForFunction(() => {
    const all = [...document.querySelectorAll(".question time")].map((time) => time.textContent);
    return all[0].includes(" h ") && all[1] === "0 s" && all.join(", ");
  });
  console.log(await shown.jsonValue());
  const sent = await page.evaluate(() => {
    const button = document.querySelector("[data-key-approve]");
    button.form.addEventListener("submit", (event) => event.preventDefault());
    button.click();
    return button.form.dataset.sent ? "sent" : "not sent";
  });
  console.log(sent);
} finally {
  await browser.close();
}
