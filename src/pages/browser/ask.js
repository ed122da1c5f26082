/** The form to ask for a container: search, dry run and address follow what is written. */
import { noteAsked } from './own-builds.js';

const planPauseMs = 400;
const searchPauseMs = 200;
const addressPauseMs = 150;
/** Pauses between looks at a search that is not complete. */
const againMs = [500, 1000, 2000, 4000, 8000, 8000, 8000, 8000];
/** Proxies refuse longer addresses. */
const longestAddress = 7000;

const form = /** @type {HTMLFormElement} */ (document.querySelector('#ask'));
const plan = /** @type {HTMLElement} */ (document.querySelector('#plan'));
const search = /** @type {HTMLInputElement | null} */ (document.querySelector('#q'));
const found = document.querySelector('#found');
const chosen = document.querySelector('#chosen');

/**
 * Returns a function that fetches a piece of the page for the form. A later call ends the earlier one, which then
 * returns undefined.
 *
 * @param {string} address
 */
function pieces(address) {
  let last = new AbortController();
  /** @param {Readonly<Record<string, string>>} [more] */
  return async (more = {}) => {
    last.abort();
    const own = new AbortController();
    last = own;
    const body = fields();
    for (const [name, value] of Object.entries(more)) body.set(name, value);
    try {
      const response = await fetch(address, {
        method: 'POST',
        body,
        signal: own.signal,
        headers: { accept: 'text/html' },
      });
      const text = await response.text();
      if (own.signal.aborted) return undefined;
      if (response.ok) return text;
      const page = new DOMParser().parseFromString(text, 'text/html');
      return page.querySelector('.failure')?.outerHTML ?? '';
    } catch {
      if (own.signal.aborted) return undefined;
      return '<p class="failure">The server does not answer: check the connection, and try again.</p>';
    }
  };
}

const fetchPlan = pieces('/view/ask/plan');
const fetchFound = pieces('/view/ask/found');
const fetchChosen = pieces('/view/ask/chosen');

/** @returns {URLSearchParams} */
function fields() {
  const texts = /** @type {[string, string][]} */ ([...new FormData(form)]);
  return new URLSearchParams(texts.filter(([, value]) => value !== ''));
}

/** Returns a function that calls another one when nobody has called it for a while. */
function later(/** @type {() => void} */ work, /** @type {number} */ ms) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, ms);
  };
}

function keepAddress() {
  const kept = fields();
  for (const name of ['q', 'versions']) kept.delete(name);
  if (kept.get('format') === 'docker') kept.delete('format');
  const address = `/?${kept}`;
  const isShort = address.length <= longestAddress;
  history.replaceState(null, '', isShort ? address : `/?by=${kept.get('by')}`);
  for (const [id, isShown] of [
    ['share-short', isShort],
    ['share-long', !isShort],
  ]) {
    const line = document.getElementById(String(id));
    if (line) line.hidden = !isShown;
  }
  for (const tab of document.querySelectorAll('.tabs a')) {
    const by = new URL(/** @type {HTMLAnchorElement} */ (tab).href).searchParams.get('by') ?? '';
    kept.set('by', by);
    tab.setAttribute('href', isShort ? `/?${kept}` : `/?by=${by}`);
  }
}

async function showPlan() {
  plan.setAttribute('aria-busy', 'true');
  const note = plan.querySelector('p.minor:only-child');
  if (note) note.textContent = 'Checking what you would get …';
  const piece = await fetchPlan();
  if (piece === undefined) return;
  plan.removeAttribute('aria-busy');
  for (const old of document.querySelectorAll('.field-problem')) old.replaceChildren();
  for (const field of form.querySelectorAll('[aria-invalid]'))
    field.removeAttribute('aria-invalid');
  plan.innerHTML = piece;
  const problem = plan.querySelector('[data-field]');
  const name = problem?.getAttribute('data-field');
  const place = name && document.getElementById(`${name}-problem`);
  if (!problem || !place) return;
  place.closest('details')?.setAttribute('open', '');
  place.replaceChildren(problem);
  document.getElementById(name)?.setAttribute('aria-invalid', 'true');
  plan.innerHTML = '<p class="minor">See the field that is marked.</p>';
}

// Browsers slow down pages that change their address often.
const addressLater = later(keepAddress, addressPauseMs);
const planLater = later(showPlan, planPauseMs);

let again = 0;

/**
 * @param {Readonly<Record<string, string>>} [more]
 * @param {number} [looks] how often the search was repeated
 */
async function showFound(more, looks = 0) {
  if (!found) return;
  clearTimeout(again);
  found.setAttribute('aria-busy', 'true');
  if (found.childElementCount === 0) found.innerHTML = '<p class="hint">Searching…</p>';
  const text = search?.value;
  const piece = await fetchFound(more);
  // Something was chosen, or written, meanwhile.
  if (piece === undefined || search?.value !== text) return;
  found.removeAttribute('aria-busy');
  // A list that somebody walks through with the keyboard stays as it is.
  if (looks > 0 && found.contains(document.activeElement)) return;
  found.innerHTML = piece;
  if (!addWanted()) lookAgain(more, looks);
}

/** The name for which Enter was pressed. It is added when the search has found it. */
let wanted = '';
const writtenName = () => search?.value.trim() ?? '';

function addWanted() {
  const first = found?.querySelector('button[name="add"]');
  const isFound = first instanceof HTMLButtonElement && first.value === wanted;
  if (wanted === '' || wanted !== writtenName() || !isFound) return false;
  choose({ add: wanted });
  return true;
}

/**
 * Repeats a search that found only a part: the data of a channel comes with its first search.
 *
 * @param {Readonly<Record<string, string>>} [more]
 * @param {number} [looks]
 */
function lookAgain(more, looks = 0) {
  const pause = againMs[looks];
  if (!pause || !found?.querySelector('[data-late], [data-more]')) return;
  again = setTimeout(() => showFound(more, looks + 1), pause);
}

const findLater = later(() => showFound(), searchPauseMs);

/** Fetches the data of the channels while somebody is still writing. */
function prepare() {
  if (search && search.value === '') void fetchFound();
}

let choosing = Promise.resolve();

/** Changes the chosen packages, after earlier changes. @param {Readonly<Record<string, string>>} change */
function choose(change) {
  choosing = choosing.then(() => chooseNow(change));
}

/** @param {Readonly<Record<string, string>>} change */
async function chooseNow(change) {
  const piece = await fetchChosen(change);
  if (piece === undefined || !chosen || !search || !found) return;
  chosen.innerHTML = piece;
  if ('add' in change) {
    wanted = '';
    clearTimeout(again);
    search.value = '';
    found.replaceChildren();
  }
  search.focus();
  keepAddress();
  showPlan();
}

form.addEventListener('input', event => {
  if (event.target === search) {
    findLater();
    return;
  }
  addressLater();
  planLater();
});

form.addEventListener('submit', event => {
  const button = /** @type {HTMLButtonElement | null} */ (event.submitter);
  const { name = '', value = '' } = button ?? {};
  if (name === 'do' && value === 'ask') {
    noteAsked(true);
    // A second click would make a second request.
    setTimeout(() => {
      if (!button) return;
      button.disabled = true;
      button.textContent = 'Asking…';
    });
    return;
  }
  event.preventDefault();
  if (name === 'add' || name === 'remove') {
    choose({ [name]: value });
    return;
  }
  if (name === 'versions') {
    showFound({ versions: value });
    return;
  }
  wanted = writtenName();
  if (/[=<>~![:/]/.test(wanted)) choose({ add: wanted });
  else if (!addWanted()) showFound();
});

// A page that comes back from the history has its button again.
addEventListener('pageshow', () => {
  const button = /** @type {HTMLButtonElement | null} */ (
    form.querySelector('button[value="ask"]')
  );
  if (!button?.disabled) return;
  button.disabled = false;
  button.textContent = 'Get the container';
});

/** Arrows go through what was found, as in a list; the first one leads back to the field. */
document.querySelector('.ask-fields')?.addEventListener('keydown', event => {
  const { key, target } = /** @type {KeyboardEvent} */ (event);
  const isInList = found?.contains(/** @type {Node} */ (target)) === true;
  if (!found || !search || (target !== search && !isInList)) return;
  if (key === 'Escape' && isInList) search.focus();
  if (key !== 'ArrowDown' && key !== 'ArrowUp') return;
  const buttons = /** @type {HTMLElement[]} */ ([...found.querySelectorAll('button.add')]);
  const row = /** @type {Element} */ (target).closest('li');
  const at = buttons.findIndex(button => row?.contains(button));
  const next = at + (key === 'ArrowDown' ? 1 : -1);
  if (buttons.length === 0 || next >= buttons.length || next < -1) return;
  event.preventDefault();
  (buttons[next] ?? search).focus();
});

search?.addEventListener('focus', prepare, { once: true });
if (search && document.activeElement === search) prepare();
lookAgain();

// A request that was refused leads back to this page.
noteAsked(false);
if (plan.querySelector('[data-waiting]')) showPlan();
