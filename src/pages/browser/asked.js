/** Follows the state of a container that is being built. */

const pauseMs = 1500;
const place = document.querySelector('#state[data-from]');

/** @param {Element} place */
async function follow(place) {
  const from = place.getAttribute('data-from') ?? '';
  while (place.querySelector('[data-running]')) {
    await new Promise(resolve => setTimeout(resolve, pauseMs));
    try {
      const answer = await fetch(from);
      const text = await answer.text();
      // Screen readers read each change.
      if (answer.ok && text !== place.innerHTML) place.innerHTML = text;
      if (!answer.ok) return;
    } catch {
      // The server may be starting again.
    }
  }
}

if (place) follow(place);
