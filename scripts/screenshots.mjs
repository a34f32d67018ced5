// Takes the pictures of README; started by screenshots.
// Usage: node screenshots.mjs LINK DIRECTORY, with NODE_MODULES and CHROMIUM in the environment.
import { createRequire } from "node:module";
import { join } from "node:path";

const [link, directory] = process.argv.slice(2);
const require = createRequire(join(process.env.NODE_MODULES, "x.js"));
const puppeteer = require("puppeteer-core");
const origin = new URL(link).origin;
const pictures = [
  ["runs", "/ui/runs", "light", 430],
  ["transcript", "/ui/local/rogue?filter=denied", "dark", 760],
  ["checks", "/ui/local/rename/checks", "light", 620],
];
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"],
});
try {
  const page = await browser.newPage();
  await page.goto(link);
  await page.waitForSelector("header.bar", { timeout: 60000 });
  for (const [name, path, theme, height] of pictures) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
    await page.setViewport({ width: 1280, height });
    const response = await page.goto(origin + path, { waitUntil: "load" });
    if (response.status() !== 200) throw new Error(`${path}: ${response.status()}`);
    await page.screenshot({ path: join(directory, `${name}.png`) });
  }
} finally {
  await browser.close();
}
