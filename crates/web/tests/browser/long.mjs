// Opens all details on pages with very long lines, and prints faults: pages that are too wide, executed text.
// Usage: node long.mjs ORIGIN PATH…, with NODE_MODULES, CHROMIUM and TOKEN in the environment.
import { createRequire } from "node:module";
import { join } from "node:path";

const [origin, ...paths] = process.argv.slice(2);
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
  const faults = [];
  page.on("pageerror", (error) => faults.push(`page: ${error.message}`));
  page.on("dialog", (dialog) => {
    faults.push("hostile text was executed");
    dialog.dismiss();
  });
  for (const width of [320, 1280]) {
    await page.setViewport({ width, height: 900 });
    for (const path of paths) {
      await page.goto(origin + path, { waitUntil: "load" });
      const [wide, longest] = await page.evaluate(() => {
        for (const details of document.querySelectorAll("details")) details.open = true;
        const lengths = [...document.querySelectorAll("pre, .code")].map((one) => one.textContent.length);
        return [document.documentElement.scrollWidth - innerWidth, Math.max(...lengths)];
      });
      if (wide > 0) faults.push(`${path} is ${wide} px too wide at ${width} px`);
      if (longest < 20000) faults.push(`${path} has no long line`);
    }
  }
  // Positive control: a page that is too wide.
  await page.evaluate(() => {
    const wide = document.createElement("pre");
    wide.textContent = "A".repeat(1000);
    wide.style.whiteSpace = "pre";
    document.querySelector("main").append(wide);
  });
  const control = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  console.log(JSON.stringify({ faults, control }));
} finally {
  await browser.close();
}
