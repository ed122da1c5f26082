/** The list of builds: shows running builds as they are now, as long as there are any. */
import { improve } from './common.js';

const pauseMs = 3000;
const part = /** @type {HTMLElement} */ (document.getElementById('builds'));

async function refresh() {
  if (!isBusy()) await replace().catch(() => {});
  follow();
}

function isBusy() {
  return document.hidden || part.contains(document.activeElement);
}

async function replace() {
  const address = new URL(location.href);
  address.searchParams.set('part', 'table');
  const response = await fetch(address);
  if (!response.ok) return;
  const text = await response.text();
  // Somebody may have moved into the list meanwhile.
  if (isBusy()) return;
  // Written by this server, which escapes every text in it.
  part.innerHTML = text;
  improve(part);
}

function follow() {
  if (part.querySelector('[data-moving]')) setTimeout(refresh, pauseMs);
}

follow();
