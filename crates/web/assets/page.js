// Keeps a page up to date, and answers questions by keyboard. Pages work without it.

const body = document.body;
const connection = document.querySelector("[data-connection]");
const plainTitle = document.title.replace(/^\(\d+\) /, "");

// --- live updates -----------------------------------------------------------------------------

/** Reads a page as a document: the browser runs no script of it. */
function read(address) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("GET", address);
    request.responseType = "document";
    request.onload = () => (request.status === 200 && request.response ? resolve(request.response) : reject());
    request.onerror = reject;
    request.send();
  });
}

/** Whether both show the same; the mark of the chosen question is only on this page. */
function isSame(one, other) {
  const plain = one.cloneNode(true);
  plain.removeAttribute("data-chosen");
  return plain.isEqualNode(other);
}

/** Whether replacing this element would take something away that the person uses. */
const isInUse = (element) =>
  element.contains(document.activeElement) && document.activeElement.matches("input, textarea");

/** Keeps what the person has opened. */
function keepOpen(from, to) {
  const old = [...from.querySelectorAll("details")];
  [...to.querySelectorAll("details")].forEach((one, index) => {
    if (old[index]?.open) one.open = true;
  });
}

function replace(known, fresh) {
  const copy = document.importNode(fresh, true);
  keepOpen(known, copy);
  if (isSame(known, copy) || isInUse(known)) return known;
  const controls = (element) => [...element.querySelectorAll("a, button, summary")];
  const focused = controls(known).indexOf(document.activeElement);
  const hadFocus = known.contains(document.activeElement);
  known.replaceWith(copy);
  // The focus stays at the same place of the element.
  if (hadFocus) (controls(copy)[Math.max(focused, 0)] ?? controls(copy)[0] ?? copy).focus?.();
  return copy;
}

/** Brings the rows of a list up to date: by their keys, so that what did not change stays. */
function updateRows(list, fresh, keepsOld) {
  const known = new Map([...list.children].map((row) => [row.dataset.row, row]));
  let previous = null;
  for (const row of [...fresh.children]) {
    const old = known.get(row.dataset.row);
    known.delete(row.dataset.row);
    if (old) {
      previous = replace(old, row);
      continue;
    }
    const copy = document.importNode(row, true);
    if (previous) previous.after(copy);
    else if (keepsOld) list.append(copy);
    else list.prepend(copy);
    previous = copy;
  }
  if (!keepsOld) for (const row of known.values()) if (!isInUse(row)) row.remove();
}

/** Brings everything that has a name on both pages up to date. */
function update(fresh) {
  const follows = document.querySelector("[data-follow]");
  const end = document.documentElement;
  const isAtEnd = follows && end.scrollHeight - end.scrollTop - end.clientHeight < 80;
  for (const region of document.querySelectorAll("[data-region]")) {
    const other = fresh.querySelector(`[data-region="${region.dataset.region}"]`);
    if (!other) continue;
    const [lists, others] = [region.querySelectorAll("[data-rows]"), other.querySelectorAll("[data-rows]")];
    if (lists.length === others.length && region.childElementCount === other.childElementCount) {
      lists.forEach((list, index) => updateRows(list, others[index], false));
    } else if (!isInUse(region)) {
      region.replaceWith(document.importNode(other, true));
    }
  }
  for (const part of document.querySelectorAll("[data-part]")) {
    const other = fresh.querySelector(`[data-part="${part.dataset.part}"]`);
    if (other) replace(part, other);
  }
  if (follows) {
    const other = fresh.querySelector("[data-follow]");
    if (other) {
      updateRows(follows, other, true);
      follows.dataset.last = other.dataset.last;
      if (other.childElementCount > 0) follows.dataset.since = other.dataset.since;
      if ("hasMore" in other.dataset) isStale = true;
    }
    document.querySelector(".content > .empty")?.toggleAttribute("hidden", follows.childElementCount > 0);
    const running = fresh.querySelector("[data-following]");
    if (!running) document.querySelector("[data-following]")?.remove();
    if (isAtEnd) end.scrollTop = end.scrollHeight;
  }
  showChosen();
}

const icon = document.querySelector("link[rel=icon]");
const plainIcon = icon?.href;

/** The icon of the tab with the number of things that wait. */
function showIcon(count) {
  const text = count > 99 ? "99+" : String(count);
  const badge = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#7a4b00"/><text x="16" y="22" font-family="sans-serif" font-size="${text.length > 2 ? 13 : 18}" font-weight="700" text-anchor="middle" fill="#fff">${text}</text></svg>`;
  const address = count > 0 ? `data:image/svg+xml,${encodeURIComponent(badge)}` : plainIcon;
  if (icon && icon.href !== address) icon.href = address;
}

let known = Number(document.querySelector("[data-waiting]:not([hidden])")?.firstElementChild.textContent ?? 0);

function showWaiting(count) {
  if (count > known && document.hidden && notifies()) {
    new Notification("Bailiwick", { body: `${count} waiting for you`, tag: "bailiwick-waiting" });
  }
  known = count;
  showIcon(count);
  document.title = count > 0 ? `(${count}) ${plainTitle}` : plainTitle;
  const badge = document.querySelector("[data-waiting]");
  if (badge) {
    badge.hidden = count === 0;
    badge.firstElementChild.textContent = count;
  }
}

function showConnection(text) {
  if (!connection) return;
  connection.hidden = text === "";
  if (connection.textContent !== text) connection.textContent = text;
}

let source = null;
let version = "";
let isStale = false;
let isReading = false;
let hasFailed = false;
let lost = 0;

/** The address of this page; of a transcript, only what is new or can still change. */
function freshAddress() {
  const address = new URL(location.href);
  address.hash = "";
  const since = document.querySelector("[data-follow]")?.dataset.since;
  if (since !== undefined) address.searchParams.set("since", since);
  return address.href;
}

/** One update per animation frame, and one request at a time. */
function refresh() {
  if (isReading || !isStale) return;
  isStale = false;
  isReading = true;
  read(freshAddress())
    .then((fresh) => new Promise((done) => requestAnimationFrame(() => done(update(fresh)))))
    .catch(() => {
      isStale = hasFailed = true;
    })
    .finally(() => {
      isReading = false;
      if (isStale) setTimeout(refresh, hasFailed ? 1000 : 0);
      hasFailed = false;
    });
}

function follow() {
  if (!body.dataset.live || source) return;
  source = new EventSource(body.dataset.live);
  source.addEventListener("hello", () => {
    showConnection("");
    // Something may have happened while nobody listened.
    if (lost > 0) isStale = true;
    lost = 0;
    body.dataset.connected = "yes";
    refresh();
  });
  source.addEventListener("change", (event) => {
    const { waiting, changed } = JSON.parse(event.data);
    showWaiting(waiting);
    if (changed && event.lastEventId !== version) {
      version = event.lastEventId;
      isStale = true;
      refresh();
    }
  });
  // There are too many streams: the page says so, and tries again later.
  source.addEventListener("refused", (event) => {
    source.close();
    source = null;
    lost += 1;
    showConnection(`Not live: ${JSON.parse(event.data).message}`);
    setTimeout(follow, 30000);
  });
  source.onerror = () => {
    lost += 1;
    delete body.dataset.connected;
    if (source.readyState === EventSource.CLOSED) {
      source = null;
      showConnection("Signed out or not reachable");
      setTimeout(follow, 5000);
    } else {
      showConnection("Connection lost; trying again");
    }
  };
}

// A hidden tab needs no stream; six of them would use up all connections of a browser. An inbox that notifies keeps it.
document.addEventListener("visibilitychange", () => {
  if (document.hidden && notifies() && notifyButton) return;
  if (document.hidden) {
    source?.close();
    source = null;
    lost += 1;
  } else {
    follow();
  }
});

// --- notifications ----------------------------------------------------------------------------

const NOTIFY = "bailiwick-notify";
const notifyButton = document.querySelector("[data-notify]");
const notifies = () =>
  "Notification" in window && Notification.permission === "granted" && localStorage.getItem(NOTIFY) === "on";

function showNotify() {
  if (notifyButton) notifyButton.textContent = notifies() ? "Stop notifying me" : "Notify me";
}

if (notifyButton && "Notification" in window) {
  notifyButton.hidden = false;
  showNotify();
  notifyButton.addEventListener("click", async () => {
    const isOn = notifies();
    const isPermitted = isOn || (await Notification.requestPermission()) === "granted";
    localStorage.setItem(NOTIFY, !isOn && isPermitted ? "on" : "off");
    if (isPermitted) showNotify();
    else notifyButton.textContent = "The browser does not permit notifications";
  });
}

// --- keyboard ---------------------------------------------------------------------------------

const KEYS = "bailiwick-keys";
const questions = () => [...document.querySelectorAll(".question")];
const keysAreOn = () => localStorage.getItem(KEYS) !== "off";

// The question that the keys answer, by its row. An update never chooses another one: a person who is about to press a
// key would answer what they have not read.
let chosenRow = questions()[0]?.dataset.row;
// A question whose text has just changed is not approved by a key that was meant for the text before.
const READING_TIME = 700;
let chosenText = null;
let changedAt = -READING_TIME;
const chosen = () => questions().find((one) => one.dataset.row === chosenRow);

function showChosen() {
  const question = keysAreOn() ? chosen() : undefined;
  for (const one of questions()) one.toggleAttribute("data-chosen", one === question);
  const text = chosen()?.querySelector(".payload")?.textContent ?? null;
  if (chosenText !== null && text !== chosenText) changedAt = performance.now();
  chosenText = text;
}

function choose(question) {
  chosenRow = question?.dataset.row;
  chosenText = null;
  showChosen();
}

function move(step) {
  const all = questions();
  const from = all.indexOf(chosen());
  const next = from < 0 ? all[0] : all[Math.min(Math.max(from + step, 0), all.length - 1)];
  choose(next);
  next?.scrollIntoView({ block: "nearest" });
}

function approve() {
  if (performance.now() - changedAt < READING_TIME) return;
  chosen()?.querySelector("[data-key-approve]")?.click();
}

const actions = {
  j: () => move(1),
  k: () => move(-1),
  a: approve,
  d: () => {
    const reason = chosen()?.querySelector("[data-key-reason]");
    reason?.focus();
    return reason;
  },
  "/": () => document.querySelector("[data-key-slash]")?.focus(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  // Enter after a reason denies.
  if (event.key === "Enter" && event.target.matches?.("[data-key-reason]")) {
    event.preventDefault();
    event.target.form.querySelector("[data-key-deny]").click();
    return;
  }
  if (!keysAreOn() || help?.open || event.target.matches?.("input, textarea, select")) return;
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

// The list of shortcuts; a press of `g` and a letter leads to a page.
const help = document.querySelector("[data-help]");
const openHelp = document.querySelector("[data-help-open]");
const toggle = document.querySelector("[data-keys-toggle]");
let isGoing = false;

function showKeys() {
  if (toggle) toggle.textContent = keysAreOn() ? "Switch shortcuts off" : "Switch shortcuts on";
}

if (openHelp) openHelp.hidden = false;
openHelp?.addEventListener("click", () => help.showModal());
document.querySelector("[data-help-close]")?.addEventListener("click", () => help.close());
toggle?.addEventListener("click", () => {
  localStorage.setItem(KEYS, keysAreOn() ? "off" : "on");
  showKeys();
  showChosen();
});
showKeys();

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || !keysAreOn()) return;
  if (help?.open || event.target.matches?.("input, textarea, select")) return;
  const page = isGoing && document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
  isGoing = event.key === "g";
  if (page) {
    event.preventDefault();
    page.click();
  } else if (event.key === "?" && help) {
    event.preventDefault();
    help.showModal();
  }
});

const hint = document.querySelector("[data-keys]");
if (hint && keysAreOn() && matchMedia("(hover: hover)").matches) hint.hidden = false;
document.querySelector("[data-keys-off]")?.addEventListener("click", () => {
  localStorage.setItem(KEYS, "off");
  hint.hidden = true;
  showChosen();
  showKeys();
});

// --- what a person has read -------------------------------------------------------------------

// By what a part changes, so that it stays read in a new attempt that makes the same change.
const READ = "bailiwick-read";
const MAX_READ = 5000;
const readCount = document.querySelector("[data-read-count]");
const hunks = [...document.querySelectorAll("[data-hunk]")];
const readHunks = () => {
  try {
    return new Set(JSON.parse(localStorage.getItem(READ) ?? "[]"));
  } catch {
    return new Set();
  }
};

function showRead() {
  const read = readHunks();
  for (const hunk of hunks) {
    const isRead = read.has(hunk.dataset.hunk);
    hunk.toggleAttribute("data-is-read", isRead && !hunk.querySelector("form"));
    hunk.querySelector("[data-read]").checked = isRead;
  }
  const count = hunks.filter((hunk) => read.has(hunk.dataset.hunk)).length;
  readCount.textContent = `· ${count} of ${hunks.length} part${hunks.length === 1 ? "" : "s"} read`;
}

if (readCount && hunks.length > 0) {
  readCount.hidden = false;
  for (const hunk of hunks) {
    const box = hunk.querySelector("[data-read]");
    box.parentElement.hidden = false;
    box.addEventListener("change", () => {
      const read = readHunks();
      if (box.checked) read.add(hunk.dataset.hunk);
      else read.delete(hunk.dataset.hunk);
      localStorage.setItem(READ, JSON.stringify([...read].slice(-MAX_READ)));
      showRead();
    });
  }
  showRead();
}

// --- copying ----------------------------------------------------------------------------------

for (const button of document.querySelectorAll("[data-copy]")) {
  // Without a secure context there is no clipboard; the text can still be selected.
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", () => {
    const text = document.getElementById(button.dataset.copy)?.textContent ?? "";
    const say = (word) => {
      button.textContent = word;
      setTimeout(() => (button.textContent = "Copy"), 2000);
    };
    navigator.clipboard.writeText(text).then(() => say("Copied"), () => say("Not permitted"));
  });
}

// An answer is sent once.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});

showIcon(known);
showChosen();
follow();
