// Keeps a page up to date, and answers questions by keyboard. Pages work without it.

const body = document.body;
const connection = document.querySelector("[data-connection]");
const plainTitle = document.title.replace(/^\(\d+\) /, "");

// --- times ------------------------------------------------------------------------------------

// The others have no title: they show the time itself.
const RELATIVE_TIME = "time[title]";
const TIME_INTERVAL = 15000;
// The clock of the server, which the page was made by.
const clockOffset = Number(body.dataset.now) - Date.now();

/** A duration in its two largest units, as the server writes it. */
function duration(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds >= 86400) return `${Math.floor(seconds / 86400)} d`;
  const minutes = Math.floor((seconds % 3600) / 60);
  const hours = `${Math.floor(seconds / 3600)} h`;
  return minutes === 0 ? hours : `${hours} ${minutes} min`;
}

/** Brings the words for all times up to date. */
function showTimes() {
  const now = Date.now() + clockOffset;
  for (const time of document.querySelectorAll(RELATIVE_TIME)) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    const passed = Math.max(now - at, 0);
    const ago = passed < 5000 ? "just now" : `${duration(passed)} ago`;
    const text = "left" in time.dataset ? duration(Math.max(at - now, 0)) : ago;
    if (time.textContent !== text) time.textContent = text;
  }
}

setInterval(() => {
  if (!document.hidden) changePage(showTimes);
}, TIME_INTERVAL);

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

/** An element without what is only on this page: the mark of the chosen question, and the words for times. */
function plain(element) {
  const copy = element.cloneNode(true);
  for (const marked of [copy, ...copy.querySelectorAll("[data-chosen]")]) marked.removeAttribute("data-chosen");
  for (const time of copy.querySelectorAll(RELATIVE_TIME)) time.textContent = "";
  return copy;
}

/** Whether both show the same. */
const isSame = (one, other) => plain(one).isEqualNode(plain(other));

// What the pointer is pressed on.
let pressed = null;
// Whether a part was not updated because it was in use.
let isPostponed = false;

/** Whether replacing this element would take something away that the person uses. */
function isInUse(element) {
  const active = document.activeElement;
  const isUsed = (element.contains(active) && active.matches("input, textarea, select")) || element.contains(pressed);
  if (isUsed) isPostponed = true;
  return isUsed;
}

/** Makes up for an update that was postponed. */
function updatePostponed() {
  if (!isPostponed) return;
  isPostponed = false;
  isStale = true;
  refresh();
}

document.addEventListener("focusout", () => setTimeout(updatePostponed, 0));
document.addEventListener("pointerdown", (event) => (pressed = event.target));
for (const name of ["pointerup", "pointercancel"]) {
  // The click comes first.
  document.addEventListener(name, () =>
    setTimeout(() => {
      pressed = null;
      updatePostponed();
    }, 0),
  );
}

/** The row of a list that an element is in. */
const rowOf = (element) => element.closest("[data-row]")?.dataset.row;

/** Elements by their row and what they are, so that one is never taken for another one or for one of another row. */
function byPlace(element, selector) {
  const counts = new Map();
  const place = (one) => {
    const kind = [rowOf(one), one.localName, one.getAttribute("name"), one.getAttribute("value")].join(" ");
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
    return `${kind} ${counts.get(kind)}`;
  };
  return new Map([...element.querySelectorAll(selector)].map((one) => [place(one), one]));
}

/** Keeps what the person has opened. */
function keepOpen(from, to) {
  const old = byPlace(from, "details");
  for (const [place, one] of byPlace(to, "details")) if (old.get(place)?.open) one.open = true;
}

const fieldsOf = (element) => [...element.querySelectorAll("input:not([type=hidden]), textarea, select")];

/** Whether the person has changed a field. */
function isChanged(field) {
  if (field.matches("select")) {
    return field.selectedIndex !== Math.max([...field.options].findIndex((one) => one.defaultSelected), 0);
  }
  return field.value !== field.defaultValue || field.checked !== field.defaultChecked;
}

/** The fixed values of a form: what its answer is about. */
function subjectOf(field) {
  const hidden = field.form?.querySelectorAll("[type=hidden]") ?? [];
  return [...hidden].map((one) => one.value).join("\n");
}

/** Keeps what the person has typed, ticked and selected. */
function keepTyped(from, to) {
  const isSameField = (one, other) => one.id === other.id && one.name === other.name && rowOf(one) === rowOf(other);
  for (const field of fieldsOf(from).filter(isChanged)) {
    const other = fieldsOf(to).find((one) => isSameField(one, field));
    if (!other) continue;
    if (field.matches("textarea, input:not([type=checkbox], [type=radio])")) other.value = field.value;
    // A choice counts only for what it was made for.
    else if (subjectOf(field) !== subjectOf(other)) continue;
    else if (field.matches("select")) other.value = field.value;
    else other.checked = field.checked;
  }
}

function replace(known, fresh) {
  const copy = document.importNode(fresh, true);
  keepOpen(known, copy);
  if (isSame(known, copy) || isInUse(known)) return known;
  keepTyped(known, copy);
  // The focus stays at the same place of the same row.
  const controls = "a, button, summary, [tabindex='0']";
  const [place] = [...byPlace(known, controls)].find(([, one]) => one === document.activeElement) ?? [];
  known.replaceWith(copy);
  byPlace(copy, controls).get(place)?.focus();
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
  isPostponed = false;
  const follows = document.querySelector("[data-follow]");
  const end = document.documentElement;
  const isAtEnd = follows && end.scrollHeight - end.scrollTop - end.clientHeight < 80;
  for (const region of document.querySelectorAll("[data-region]")) {
    const other = fresh.querySelector(`[data-region="${region.dataset.region}"]`);
    if (!other) continue;
    const [lists, others] = [region.querySelectorAll("[data-rows]"), other.querySelectorAll("[data-rows]")];
    if (lists.length === others.length && region.childElementCount === other.childElementCount) {
      lists.forEach((list, index) => updateRows(list, others[index], false));
    } else {
      replace(region, other);
    }
  }
  for (const part of document.querySelectorAll("[data-part]")) {
    const other = fresh.querySelector(`[data-part="${part.dataset.part}"]`);
    if (other) replace(part, other);
  }
  if (follows) {
    const other = fresh.querySelector("[data-follow]");
    if (other) {
      const wasPostponed = isPostponed;
      isPostponed = false;
      updateRows(follows, other, true);
      follows.dataset.last = other.dataset.last;
      // What was postponed is asked for again.
      if (other.childElementCount > 0 && !isPostponed) follows.dataset.since = other.dataset.since;
      if ("hasMore" in other.dataset && !isPostponed) isStale = true;
      isPostponed ||= wasPostponed;
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

const showWaiting = (count) => changePage(() => showCount(count));

function showCount(count) {
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
  changePage(() => {
    connection.hidden = text === "";
    if (connection.textContent !== text) connection.textContent = text;
  });
}

// Other pages stay as they are: their stream tells only how much waits.
const isUpdated = "updates" in body.dataset;
let source = null;
let version = "";
let isStale = false;
let isReading = false;
let hasFailed = false;
let lost = 0;

/**
 * The address of this page; of a transcript, only what is new or can still change; of the other pages of a run, what
 * is beside them.
 */
function freshAddress() {
  if (body.dataset.updates) return body.dataset.updates;
  const address = new URL(location.href);
  address.hash = "";
  const since = document.querySelector("[data-follow]")?.dataset.since;
  if (since !== undefined) address.searchParams.set("since", since);
  return address.href;
}

/** One update per animation frame, and one request at a time. */
function refresh() {
  if (!isUpdated || isReading || !isStale) return;
  isStale = false;
  isReading = true;
  read(freshAddress())
    .then((fresh) => new Promise((done) => requestAnimationFrame(() => done(changePage(() => update(fresh))))))
    .catch(() => {
      isStale = hasFailed = true;
    })
    .finally(() => {
      isReading = false;
      if (isStale) setTimeout(refresh, hasFailed ? 1000 : 0);
      hasFailed = false;
    });
}

// A hidden tab needs no stream; six of them would use up all connections of a browser. An inbox that notifies keeps it.
const needsStream = () => !document.hidden || (notifyButton && notifies());

function follow() {
  if (!body.dataset.live || source || !needsStream()) return;
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

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) changePage(showTimes);
  if (needsStream()) {
    follow();
    return;
  }
  source?.close();
  source = null;
  lost += 1;
  delete body.dataset.connected;
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
const chosen = () => questions().find((one) => one.dataset.row === chosenRow);

function showChosen() {
  const question = keysAreOn() ? chosen() : undefined;
  for (const one of questions()) one.toggleAttribute("data-chosen", one === question);
}

function choose(question) {
  chosenRow = question?.dataset.row;
  showChosen();
}

function move(step) {
  const all = questions();
  const from = all.indexOf(chosen());
  const next = from < 0 ? all[0] : all[Math.min(Math.max(from + step, 0), all.length - 1)];
  choose(next);
  next?.scrollIntoView({ block: "nearest" });
}

const actions = {
  j: () => move(1),
  k: () => move(-1),
  // The click is guarded below.
  a: () => chosen()?.querySelector("[data-key-approve]")?.click(),
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
    if (!event.repeat) event.target.form.querySelector("[data-key-deny]").click();
    return;
  }
  // A key that is held answers one question at most.
  if (event.repeat && !["j", "k"].includes(event.key)) return;
  if (!keysAreOn() || help?.open || event.target.matches?.("input, textarea, select")) return;
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

// --- answers that were meant for something else -----------------------------------------------

// A card that has just appeared, changed or moved takes no answer: it was meant for what was there before.
const READING_TIME = 700;
const NOTICE_TIME = 4000;
// By the row of each card: its text, when that changed, and when the card moved.
let cards = new Map();
const notice = document.querySelector("[data-notice]");
let noticeTimer;

// What a person answers or decides; the keys answer only questions.
const CARD = ".question, .decision";
const cardsOnPage = () => [...document.querySelectorAll(CARD)];

// Without the buttons that copy: their words change when they are used.
const CARD_TEXT = ".payload dt, .payload dd > :not(.copied), .alert, [name=digest], .run-main, .job, [name=action]";

/** What a person must have read before an answer counts. */
const textOf = (card) =>
  [...card.querySelectorAll(CARD_TEXT)].map((one) => one.value ?? one.textContent).join("\n");

/** Where the buttons of a card are in the window. */
function positionOf(card) {
  const { left, top } = (card.querySelector(".answer") ?? card).getBoundingClientRect();
  return `${Math.round(left)} ${Math.round(top)}`;
}

/** Changes the page, and remembers which cards that changed or moved. */
function changePage(perform) {
  const before = new Map(cardsOnPage().map((card) => [card.dataset.row, positionOf(card)]));
  perform();
  const now = performance.now();
  const state = (card) => {
    const [known, text] = [cards.get(card.dataset.row), textOf(card)];
    const isInPlace = before.get(card.dataset.row) === positionOf(card);
    return {
      text,
      changedAt: known?.text === text ? known.changedAt : now,
      movedAt: known && isInPlace ? known.movedAt : now,
    };
  };
  cards = new Map(cardsOnPage().map((card) => [card.dataset.row, state(card)]));
}

/** Whether the person had time to see the card as it is. Keys find a card wherever it is, a pointer does not. */
function isReadable(card, isPointer) {
  const known = cards.get(card.dataset.row);
  if (!known) return false;
  const since = isPointer ? Math.max(known.changedAt, known.movedAt) : known.changedAt;
  return performance.now() - since >= READING_TIME;
}

function showNotice(text) {
  if (!notice) return;
  notice.textContent = text;
  notice.hidden = false;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => (notice.hidden = true), NOTICE_TIME);
}

document.addEventListener(
  "click",
  (event) => {
    const card = event.target.closest?.("button:not(.copy)")?.closest(CARD);
    // A click without a pointer has no count.
    if (!card || isReadable(card, event.detail > 0)) return;
    event.preventDefault();
    event.stopPropagation();
    showNotice("Not sent: this has just appeared, changed or moved. Read it and answer again.");
  },
  true,
);

// --- shortcuts --------------------------------------------------------------------------------

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

// Without a secure context there is no clipboard, and no button; the text can still be selected.
if (navigator.clipboard) document.documentElement.dataset.copies = "yes";
const copied = document.querySelector("[data-copied]");

/** What a button copies: its own text, the text of an element, or the address of its event. */
function textToCopy(button) {
  const { copyText, copy } = button.dataset;
  if (copyText !== undefined) return copyText;
  if (copy !== undefined) return document.getElementById(copy)?.textContent ?? "";
  return button.closest("[data-row]")?.querySelector(".mark")?.href ?? "";
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button.copy");
  if (!button) return;
  const label = (button.dataset.label ??= button.textContent);
  const say = (word) => {
    copied.textContent = button.textContent = word;
    setTimeout(() => {
      copied.textContent = "";
      button.textContent = label;
    }, 2000);
  };
  navigator.clipboard.writeText(textToCopy(button)).then(() => say("Copied"), () => say("Not permitted"));
});

// An answer is sent once.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});

// A person who goes back finds the page as it was, also its sent forms; they can be sent again.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) for (const form of document.forms) delete form.dataset.sent;
});

showIcon(known);
showChosen();
// All cards have just appeared.
changePage(() => {});
follow();
