/**
 * Builds that this browser has opened without a login. The server cannot list them: it knows callers without a login only
 * by their network, and the id of a build gives access to it.
 */

/** @typedef {{ readonly id: string, readonly name: string }} OwnBuild */

const key = 'sluice-builds';
const mostKept = 25;

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

/**
 * Remembers the build that the page shows, unless somebody is logged in: others may use the browser later.
 * @param {string} id
 */
export function rememberBuild(id) {
  if (id === '' || document.body.dataset.stranger === undefined) return;
  const name = document.querySelector('h1 code')?.textContent || id;
  writeBuilds([{ id, name }, ...readBuilds().filter(one => one.id !== id)]);
}

/** Shows the list, and forgets builds that the server has removed. @param {HTMLElement} place */
async function showBuilds(place) {
  const builds = readBuilds();
  if (builds.length === 0) return;
  const list = document.createElement('ul');
  place.replaceChildren(list);
  for (const { id, name } of builds) {
    const address = `builds/${encodeURIComponent(id)}`;
    const row = document.createElement('li');
    const link = document.createElement('a');
    link.href = `/view/${address}`;
    link.textContent = name;
    row.append(link);
    list.append(row);
    const response = await fetch(`/v1alpha1/${address}/status`).catch(() => undefined);
    if (response?.status === 404) {
      row.remove();
      writeBuilds(readBuilds().filter(one => one.id !== id));
    }
    if (!response?.ok) continue;
    const { phase, succeeded } = await response.json();
    row.append(` ${phase ?? (succeeded ? 'succeeded' : 'failed')}`);
  }
}

const place = document.getElementById('own-builds');
if (place) void showBuilds(place);
