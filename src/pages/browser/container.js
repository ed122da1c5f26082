/** The page of a container: follows its build, and shows what is in the image when it is there. */
import { improve } from './common.js';
import { follow } from './follow.js';
import { rememberBuild, takeAsked } from './own-builds.js';

const againMs = 3000;
const isAsked = takeAsked();
const parts = ['state', 'progress', 'use', 'build', 'facts', 'contents'];

/** Shows the page as it is now. */
async function refresh() {
  try {
    const response = await fetch(location.href, { headers: { accept: 'text/html' } });
    if (!response.ok) return;
    show(new DOMParser().parseFromString(await response.text(), 'text/html'));
    followState();
  } catch {
    // The server may be starting again.
    setTimeout(refresh, againMs);
  }
}

/** @param {Document} page */
function show(page) {
  document.title = page.title;
  for (const id of parts) {
    const old = document.getElementById(id);
    const now = page.getElementById(id);
    // The name never changes, and its buttons keep the focus.
    if (!old || !now || (id === 'use' && now.childElementCount > 0)) continue;
    old.replaceChildren(...now.childNodes);
    improve(old);
  }
}

function followState() {
  const build = document.querySelector('[data-build]');
  if (build) watch(build);
  else if (document.querySelector('[data-late]')) setTimeout(refresh, againMs);
}

/** @param {Element} build */
function watch(build) {
  const id = build.getAttribute('data-build') ?? '';
  rememberBuild(id);
  /** @param {string} name */
  const show = name => (/** @type {string} */ html) => {
    const part = document.getElementById(name);
    if (!part) return;
    // Written by this server, which escapes every text in it.
    part.innerHTML = html;
    improve(part);
  };
  follow(id, {
    state: show('build-state'),
    progress: show('progress'),
    steps: show('course'),
    end: refresh,
  });
}

// A build that fails at once has ended before its page is there.
const made = document.querySelector('[data-made]')?.getAttribute('data-made');
if (isAsked && made) rememberBuild(made, true);
followState();
