// Signs in, performs a list of actions with the keyboard in a real Chromium, and prints the status of each response.
// Usage: node act.mjs ORIGIN <actions.json, with NODE_MODULES, CHROMIUM and TOKEN in the environment.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [origin] = process.argv.slice(2);
const actions = JSON.parse(readFileSync(0, "utf8"));
const require = createRequire(join(process.env.NODE_MODULES, "x.js"));
const puppeteer = require("puppeteer-core");
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu"],
});

/** Fills in the empty fields of the form of an action, and puts the focus on its button. */
function prepare({ action, value, fields }) {
  for (const details of document.querySelectorAll("details")) details.open = true;
  const values = Object.fromEntries(fields);
  for (const button of document.querySelectorAll("form[method=post] button:not([disabled])")) {
    const form = button.form;
    const valueOf = (name) => (button.name === name ? button.value : form.elements.namedItem(name)?.value);
    const target = button.getAttribute("formaction") ?? form.getAttribute("action");
    if (target !== action || (valueOf("action") ?? valueOf("answer") ?? "") !== value) continue;
    for (const field of form.elements) {
      const isText = field.matches("input:not([type=hidden], [type=checkbox]), textarea");
      if (isText && field.value === "") field.value = values[field.name] ?? "";
    }
    button.focus();
    return document.activeElement === button;
  }
  return false;
}

const statuses = [];
try {
  const page = await browser.newPage();
  page.setDefaultNavigationTimeout(300000);
  page.setDefaultTimeout(120000);
  const signIn = async () => {
    await page.goto(`${origin}/ui/sign-in`, { waitUntil: "load" });
    await page.focus("input[name=token]");
    await page.keyboard.type(process.env.TOKEN);
    await Promise.all([page.waitForNavigation({ waitUntil: "load" }), page.keyboard.press("Enter")]);
  };
  await signIn();
  for (const action of actions) {
    await page.goto(origin + action.page, { waitUntil: "load" });
    if (!(await page.evaluate(prepare, action))) {
      statuses.push("not reached");
      continue;
    }
    // A new question accepts no answer for a short time, so that a person can read it first.
    const isAnswer = await page.evaluate(() => Boolean(document.activeElement.closest(".question, .decision")));
    if (isAnswer) await new Promise((resolve) => setTimeout(resolve, 1000));
    const [response] = await Promise.all([
      page.waitForNavigation({ waitUntil: "load" }),
      page.keyboard.press("Enter"),
    ]);
    statuses.push(`${response.status()}`);
    if (new URL(page.url()).pathname === "/ui/sign-in") await signIn();
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(statuses));
