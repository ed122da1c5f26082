/** Files for the form that asks for a container: chosen, or dropped on the page. They are read here, and sent as text. */

const form = /** @type {HTMLFormElement} */ (document.querySelector('#ask'));
const place = /** @type {HTMLElement} */ (document.getElementById('file-problem'));
const input = /** @type {HTMLInputElement | null} */ (document.getElementById('file'));
const most = Number(form.dataset.most);

document.getElementById('file-choice')?.removeAttribute('hidden');

/** Shows a sentence: names of files come from anywhere, so that it is a text. @param {string} text @param {boolean} [isProblem] */
function say(text, isProblem = false) {
  const line = document.createElement('p');
  line.className = isProblem ? 'failure' : 'hint';
  line.textContent = text;
  place.replaceChildren(line);
}

/** Returns a name that is not longer than a line. @param {string} name */
const shortName = name => (name.length > 80 ? `${name.slice(0, 80)}…` : name);

/**
 * Returns the text of a file; undefined after a problem, which it shows.
 * @param {File} file
 */
async function read(file) {
  const name = shortName(file.name);
  // A file of any size is refused before a byte of it is read.
  if (file.size > most) {
    const size = (file.size / 1024).toLocaleString('en-US', { maximumFractionDigits: 0 });
    say(
      `${name} has ${size} KiB. This page accepts at most ${Math.floor(most / 1024)} KiB: choose a shorter file, or send it with the command line.`,
      true,
    );
    return undefined;
  }
  try {
    const bytes = await file.arrayBuffer();
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    if (text.trim() === '') say(`${name} is empty: choose another file.`, true);
    else if (text.includes('\0')) say(`${name} is not a text file: choose another one.`, true);
    else return text;
  } catch (error) {
    const isText = !(error instanceof TypeError);
    say(
      isText
        ? `${name} cannot be read: choose a file, not a folder.`
        : `${name} is not a text in UTF-8: choose another file.`,
      true,
    );
  }
  return undefined;
}

/** Returns the field that a file belongs to. @param {string} name */
function fieldOf(name) {
  const isRecipe = /^(?:Dockerfile|Containerfile)\b|\.(?:def|dockerfile)$/i.test(name);
  return isRecipe ? 'dockerfile' : 'environment';
}

/** @param {File} file @param {string} field */
async function take(file, field) {
  const text = await read(file);
  if (text === undefined) return;
  const area = form.elements.namedItem(field);
  if (area instanceof HTMLTextAreaElement) {
    area.value = text;
    say(`${shortName(file.name)} is in the field below.`);
    area.dispatchEvent(new Event('input', { bubbles: true }));
    return;
  }
  // The form of another kind: the server shows the one for this file.
  const by = /** @type {HTMLInputElement} */ (form.elements.namedItem('by'));
  by.value = field === 'dockerfile' ? 'dockerfile' : 'file';
  const added = document.createElement('textarea');
  added.name = field;
  added.hidden = true;
  added.value = text;
  form.append(added);
  form.submit();
}

input?.addEventListener('change', () => {
  const [file] = input.files ?? [];
  if (file) void take(file, input.dataset.field ?? 'environment');
});

/** @param {DragEvent} event */
const hasFiles = event => event.dataTransfer?.types.includes('Files') === true;

addEventListener('dragover', event => {
  if (!hasFiles(event)) return;
  // Otherwise the browser opens the file in place of the page.
  event.preventDefault();
  document.body.dataset.dropping = '';
});
for (const name of ['dragleave', 'drop']) {
  addEventListener(name, () => delete document.body.dataset.dropping);
}
addEventListener('drop', event => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  const files = event.dataTransfer?.files;
  const [file] = files ?? [];
  if (!file) return;
  if (files && files.length > 1) say('Drop one file: an image is made from one.', true);
  else void take(file, fieldOf(file.name));
});
