/** The page of a layer: shows what is known of it, until all of it has been read. */
import { improve } from './common.js';

// Each look counts among the requests of the caller.
const pauseMs = 5000;
const part = /** @type {HTMLElement} */ (document.getElementById('layer-content'));

async function refresh() {
  const isBusy = document.hidden || part.contains(document.activeElement);
  if (isBusy || (await replace().catch(() => true))) follow();
}

/** Returns false if the server refuses the look: further ones would not help. */
async function replace() {
  const address = new URL(location.href);
  address.searchParams.set('part', 'content');
  const response = await fetch(address);
  if (!response.ok) return false;
  // Written by this server, which escapes every text in it.
  part.innerHTML = await response.text();
  improve(part);
  return true;
}

function follow() {
  if (part.querySelector('[data-moving]')) setTimeout(refresh, pauseMs);
}

follow();
