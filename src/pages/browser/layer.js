/** The page of a layer: shows what is known of it, until all of it has been read. */
import { improve } from './common.js';

const pauseMs = 1000;
const part = /** @type {HTMLElement} */ (document.getElementById('layer-content'));

async function refresh() {
  const isBusy = document.hidden || part.contains(document.activeElement);
  if (!isBusy) await replace().catch(() => {});
  follow();
}

async function replace() {
  const address = new URL(location.href);
  address.searchParams.set('part', 'content');
  const answer = await fetch(address);
  if (!answer.ok) return;
  // Written by this server, which escapes every text in it.
  part.innerHTML = await answer.text();
  improve(part);
}

function follow() {
  if (part.querySelector('[data-moving]')) setTimeout(refresh, pauseMs);
}

follow();
