// Selects the second question of the inbox with a key, waits for updates of the page, and answers with keys.
// Usage: node choose.mjs ORIGIN, with NODE_MODULES, CHROMIUM and TOKEN in the environment.
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
  const chosen = () =>
    page.evaluate(() => document.querySelector("[data-chosen] input[name=question]")?.value ?? "none");
  const questions = (count) =>
    page.waitForFunction((count) => document.querySelectorAll(".question").length === count, {}, count);
  await page.keyboard.press("j");
  console.log(`chosen ${await chosen()}`);
  await questions(3);
  console.log(`updated, chosen ${await chosen()}`);
  // After the time for reading, a key press counts, but a repeated key does not.
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const repeated = await page.evaluate(() => {
    document.dispatchEvent(new KeyboardEvent("keydown", { key: "a", repeat: true, bubbles: true }));
    return document.querySelector("[data-chosen] form").dataset.sent ? "sent" : "not sent";
  });
  console.log(`held, ${repeated}`);
  await Promise.all([page.waitForNavigation({ waitUntil: "load" }), page.keyboard.press("a")]);
  console.log("approved");
  await page.goto(`${origin}/ui/inbox`, { waitUntil: "load" });
  await page.keyboard.press("j");
  console.log(`chosen ${await chosen()}`);
  await questions(1);
  console.log(`updated, chosen ${await chosen()}`);
  await page.keyboard.press("a");
  await new Promise((resolve) => setTimeout(resolve, 500));
  // A click right after the page is loaded does not count.
  await page.evaluateOnNewDocument(() => {
    document.addEventListener("DOMContentLoaded", () => {
      const button = document.querySelector("[data-key-approve]");
      button.form.addEventListener("submit", (event) => event.preventDefault());
      button.click();
      const sent = button.form.dataset.sent ? "sent" : "not sent";
      const land = document.querySelector(".decision [value=land]");
      land.form.addEventListener("submit", (event) => event.preventDefault());
      land.click();
      window.earlyLand = land.form.dataset.sent ? "sent" : "not sent";
      window.early = `${sent}, ${document.querySelector("[data-notice]").hidden ? "silent" : "told"}`;
    });
  });
  await page.goto(`${origin}/ui/inbox`, { waitUntil: "load" });
  console.log(`early, ${await page.evaluate(() => window.early)}`);
  console.log(`land early, ${await page.evaluate(() => window.earlyLand)}`);
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const land = await page.evaluate(() => {
    const button = document.querySelector(".decision [value=land]");
    button.form.addEventListener("submit", (event) => event.preventDefault());
    button.click();
    return button.form.dataset.sent ? "sent" : "not sent";
  });
  console.log(`land later, ${land}`);
  const restored = (persisted) =>
    page.evaluate((persisted) => {
      window.dispatchEvent(new PageTransitionEvent("pageshow", { persisted }));
      return document.querySelectorAll("[data-sent]").length;
    }, persisted);
  console.log(`blocked ${await restored(false)}, after going back ${await restored(true)}`);
} finally {
  await browser.close();
}
