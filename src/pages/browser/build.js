/** The page of a build: follows it while it runs, and scrolls through the whole of its log. */
import { improve } from './common.js';
import { follow } from './follow.js';
import { openFolds } from './log-folds.js';
import { openLog } from './log-lines.js';
import { rememberBuild } from './own-builds.js';

const box = document.getElementById('lines');
const place = /** @type {HTMLElement} */ (box ?? document.getElementById('folds'));
const folds = box ? undefined : openFolds(place);
const log = folds ?? openLog(place);

/**
 * Replaces a part of the page. What has the focus keeps it.
 * @param {string} id
 * @param {string} html
 */
function replace(id, html) {
  const part = document.getElementById(id);
  if (!part) return;
  const focused = document.activeElement;
  const isInside = focused instanceof HTMLElement && part.contains(focused);
  const address = isInside ? focused.getAttribute('href') : null;
  const open = [...part.querySelectorAll('details')].map(one => one.open);
  // Written by this server, which escapes every text in it.
  part.innerHTML = html;
  for (const [at, details] of part.querySelectorAll('details').entries()) {
    details.open = open[at] ?? false;
  }
  improve(part);
  if (address === null) return;
  for (const link of part.querySelectorAll('a')) {
    if (link.getAttribute('href') === address) link.focus();
  }
}

rememberBuild(place.dataset.build ?? '');
if (place.dataset.live !== undefined) {
  /** @param {string} id */
  const show = id => (/** @type {string} */ html) => {
    replace(id, html);
    folds?.update();
  };
  follow(place.dataset.build ?? '', {
    state(/** @type {string} */ html) {
      show('state')(html);
      const title = document.querySelector('#state [data-title]')?.getAttribute('data-title');
      if (title) document.title = `${title} · Sluice`;
    },
    progress: show('progress'),
    steps: show('course'),
    recipe: show('recipe'),
    lines: log.add,
    end() {
      document.getElementById('cancel')?.remove();
      place.removeAttribute('data-live');
    },
  });
}
