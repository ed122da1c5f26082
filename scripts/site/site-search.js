// The search of the documentation. The list of its parts is a script, so that it works on files without a server.
const field = document.querySelector('#search');
const results = document.querySelector('#results');
const root = document.documentElement.dataset.root;
const most = 20;
let parts;

function load() {
  parts ??= new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.src = `${root}site-parts.js`;
    script.onload = () => resolve(globalThis.siteParts);
    script.onerror = reject;
    document.head.append(script);
  });
  return parts;
}

async function search() {
  const words = field.value
    .toLowerCase()
    .split(/\s+/)
    .filter(word => word !== '');
  const all = await load();
  const scored =
    words.length === 0
      ? []
      : all.flatMap(part => {
          const title = `${part.title} ${part.page}`.toLowerCase();
          const text = part.text.toLowerCase();
          if (!words.every(word => title.includes(word) || text.includes(word))) return [];
          return [{ part, score: words.filter(word => title.includes(word)).length }];
        });
  scored.sort((one, other) => other.score - one.score);
  results.replaceChildren(...scored.slice(0, most).map(({ part }) => entryOf(part, words)));
  results.hidden = words.length === 0;
  if (words.length > 0 && scored.length === 0) results.textContent = 'Nothing was found.';
}

function entryOf({ page, title, address, text }, words) {
  const item = document.createElement('li');
  const link = document.createElement('a');
  link.href = root + address;
  link.textContent = title === page ? title : `${page}: ${title}`;
  const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 60);
  const about = document.createElement('p');
  about.textContent = text.slice(at, at + 160);
  item.append(link, about);
  return item;
}

field.addEventListener('focus', load, { once: true });
field.addEventListener('input', search);
