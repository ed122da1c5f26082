/**
 * Builds that this browser has opened without a login. The server cannot list them: it knows callers without a login only
 * by their network, and the id of a build gives access to it.
 */

/** @typedef {{ readonly id: string, readonly name: string, readonly isStarted?: boolean }} OwnBuild */

const key = 'sluice-builds';
const mostKept = 25;
/** Set in a tab from a request of its form until the next page, which is that of the container. */
const askedKey = 'sluice-asked';
// As in the list of builds with a login: the page of a build has all of its reason.
const mostOfReason = 200;
/** What `lastLinesFollow` of the server begins. */
const lastLines = '. Its last lines:\n';
const badges = /** @type {const} */ ({
  queued: ['waiting', 'wait'],
  running: ['running', 'wait'],
  succeeded: ['succeeded', 'good'],
  failed: ['failed', 'bad'],
});

/** @returns {OwnBuild[]} */
function readBuilds() {
  try {
    const kept = JSON.parse(localStorage.getItem(key) ?? '[]');
    const isBuild = (/** @type {OwnBuild} */ one) =>
      typeof one?.id === 'string' && typeof one.name === 'string';
    return kept.filter(isBuild).slice(0, mostKept);
  } catch {
    // The browser keeps nothing, or something else has written here.
    return [];
  }
}

/** @param {readonly OwnBuild[]} builds */
function writeBuilds(builds) {
  try {
    localStorage.setItem(key, JSON.stringify(builds.slice(0, mostKept)));
  } catch {
    // A list is missing, and the page works without it.
  }
}

/** Notes that the form of this tab has sent a request, or with false that it has not. @param {boolean} isSent */
export function noteAsked(isSent) {
  try {
    if (isSent) sessionStorage.setItem(askedKey, 'yes');
    else sessionStorage.removeItem(askedKey);
  } catch {
    // A browser that keeps nothing lists no builds either.
  }
}

/** Returns true on the page that follows a request of the form in this tab, once. */
export function takeAsked() {
  try {
    const isAsked = sessionStorage.getItem(askedKey) !== null;
    sessionStorage.removeItem(askedKey);
    return isAsked;
  } catch {
    return false;
  }
}

/**
 * Remembers the build that the page shows, unless somebody is logged in: others may use the browser later.
 * @param {string} id
 * @param {boolean} [isStarted] true if a request of this browser has started it
 */
export function rememberBuild(id, isStarted = false) {
  if (id === '' || document.body.dataset.anonymous === undefined) return;
  const name = document.querySelector('h1 code')?.textContent || id;
  const builds = readBuilds();
  const former = builds.find(one => one.id === id);
  const build = { id, name, isStarted: isStarted || former?.isStarted === true };
  writeBuilds([build, ...builds.filter(one => one.id !== id)]);
}

/** Shows the list, and forgets builds that the server has removed. @param {HTMLElement} place */
async function showBuilds(place) {
  const builds = readBuilds();
  if (builds.length === 0) return;
  const list = document.createElement('ul');
  place.replaceChildren(list);
  for (const build of builds) {
    const row = document.createElement('li');
    const link = document.createElement('a');
    link.href = `/view/builds/${encodeURIComponent(build.id)}`;
    const name = document.createElement('code');
    name.textContent = build.name;
    link.append(name);
    row.append(link);
    list.append(row);
    await showState(row, build);
  }
}

/** @param {HTMLElement} row @param {OwnBuild} build */
async function showState(row, { id, isStarted }) {
  const address = `/v1alpha1/builds/${encodeURIComponent(id)}`;
  const response = await fetch(`${address}/status`).catch(() => undefined);
  if (response?.status === 404) {
    row.remove();
    writeBuilds(readBuilds().filter(one => one.id !== id));
  }
  if (!response?.ok) return;
  const { phase, succeeded } = await response.json();
  const state = /** @type {keyof typeof badges} */ (phase ?? (succeeded ? 'succeeded' : 'failed'));
  const [word, look] = badges[state];
  const badge = document.createElement('span');
  badge.className = `badge ${look}`;
  badge.textContent = word;
  row.prepend(badge, ' ');
  if (state === 'failed' && isStarted) await showReason(row, address);
}

/**
 * Says why a build failed that this browser has started. The list of builds that somebody else started, and whose address
 * was sent here, has no texts of theirs.
 * @param {HTMLElement} row @param {string} address
 */
async function showReason(row, address) {
  const response = await fetch(address).catch(() => undefined);
  if (!response?.ok) return;
  const { reason = '' } = await response.json();
  const [words = ''] = reason.split(lastLines);
  const text = words.trim().replaceAll('\n', ' ');
  if (text === '') return;
  const why = document.createElement('div');
  why.className = 'why';
  why.textContent = text.length > mostOfReason ? `${text.slice(0, mostOfReason)}…` : text;
  row.append(why);
}

const place = document.getElementById('own-builds');
if (place) void showBuilds(place);
