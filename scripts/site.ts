/**
 * Makes a site of the documentation: `npm run site [folder]`. The folder is .site by default. It needs no server: its pages and its
 * search also work as files.
 */
import { globSync } from 'node:fs';
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join, posix, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { contentOf, escaped, partsOf, type SitePage } from './site/site-page.ts';

const project = fileURLToPath(new URL('..', import.meta.url));
const folder = resolve(process.argv[2] ?? join(project, '.site'));
const shown = ['*.md', 'docs/**/*.md', 'deploy/**/*.md', 'src/**/*.md', 'bench/*.md'];

const pages: SitePage[] = await Promise.all(
  globSync(shown, { cwd: project })
    .sort()
    .map(async path => ({ path, markdown: await readFile(join(project, path), 'utf8') })),
);
/** A shorter page needs no list of its sections. */
const fewestSections = 3;
const paths = new Set(pages.map(({ path }) => path));
const index = pages.find(({ path }) => path === 'docs/README.md');
if (!index) throw new Error('docs/README.md is missing: it is the index of the site');
const files = new Set<string>();

await rm(folder, { recursive: true, force: true });
for (const page of pages) await write(addressOf(page.path), documentOf(page));
for (const file of files) {
  await mkdir(dirname(join(folder, file)), { recursive: true });
  await copyFile(join(project, file), join(folder, file));
}
const parts = pages
  .flatMap(page => partsOf(page, addressOf(page.path)))
  .map(({ page, title, address, text }) => ({ page, title, address, text }));
await write('site-parts.js', `globalThis.siteParts = ${JSON.stringify(parts)};\n`);
const own = (name: string) => readFile(new URL(name, import.meta.url), 'utf8');
const styles = ['00-tokens.css', '11-wide-tables.css'].map(name =>
  own(`../src/pages/styles/${name}`),
);
await write('site.css', [...(await Promise.all(styles)), await own('site/site.css')].join('\n'));
await write('site-search.js', await own('site/site-search.js'));
await write('logo.svg', await own('../src/pages/styles/logo.svg'));
console.log(`${pages.length} pages in ${folder}: open index.html`);

/** Returns the address of a page from the root of the site. */
function addressOf(path: string): string {
  return path === 'README.md' ? 'index.html' : path.replace(/\.md$/, '.html');
}

/** Returns where a link of a page leads on the site; nowhere for what is a folder of the project. */
function linkFrom(page: string): (address: string) => string {
  return address => {
    if (/^(?:[a-z]+:|#)/.test(address)) return address;
    const [path = '', anchor] = address.split('#');
    const target = posix.join(posix.dirname(page), path);
    const end = anchor === undefined ? '' : `#${anchor}`;
    if (paths.has(target)) return rootOf(page) + addressOf(target) + end;
    if (!/\.\w+$/.test(target) && !target.endsWith('LICENSE')) return '';
    files.add(target);
    return rootOf(page) + target;
  };
}

function rootOf(page: string): string {
  return '../'.repeat(page.split('/').length - 1);
}

function documentOf(page: SitePage): string {
  const { path, markdown } = page;
  const title = /^# (.+)$/m.exec(markdown)?.[1] ?? path;
  const root = rootOf(path);
  return `<!doctype html>
<html lang="en" data-root="${root}">
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)} · Sluice</title>
<link rel="icon" type="image/svg+xml" href="${root}logo.svg"><link rel="stylesheet" href="${root}site.css">
<a class="skip" href="#content">Skip to the content</a>
<header><a href="${root}index.html"><img src="${root}logo.svg" alt="" width="20" height="20">Sluice</a>
<input id="search" type="search" aria-label="Search the documentation" aria-controls="results" placeholder="Search the documentation" autocomplete="off">
<a class="to-pages" href="#pages">Pages</a></header>
<ul id="results" aria-live="polite" hidden></ul>
<main id="content">
${contentOf(markdown, linkFrom(path))}</main>
<nav id="pages" aria-label="Pages">${navigation(path)}</nav>
${sectionLinks(page)}
<script src="${root}site-search.js"></script>
</html>
`;
}

/** Returns the links of the sections of a page, which wide screens have room for; nothing for a short page. */
function sectionLinks({ path, markdown }: SitePage): string {
  const sections = partsOf({ path, markdown }, '').filter(({ depth }) => depth === 2);
  if (sections.length < fewestSections) return '';
  const links = sections.map(
    ({ title, address }) => `<li><a href="${escaped(address)}">${escaped(title)}</a></li>`,
  );
  return `<nav id="sections" aria-label="On this page"><h2>On this page</h2><ul>${links.join('')}</ul></nav>`;
}

/** Returns the links of the index, in its order. */
function navigation(path: string): string {
  const linkOf = linkFrom('docs/README.md');
  const sections = (index?.markdown ?? '').split(/^## /m).slice(1);
  return sections
    .map(section => {
      const [title = '', ...lines] = section.split('\n');
      const links = lines
        .filter(line => /^(?:-|\d+\.) |^ {2}/.test(line))
        .flatMap(line => [...line.matchAll(/\[([^\]]+)\]\(([^)#]+)\)/g)])
        .map(([, text = '', address = '']) => {
          const target = linkOf(address).replace(/^\.\.\//, '');
          const here = target === addressOf(path) ? ' aria-current="page"' : '';
          return `<li><a href="${rootOf(path)}${escaped(target)}"${here}>${escaped(capitalised(text))}</a></li>`;
        });
      return links.length === 0 ? '' : `<h2>${escaped(title)}</h2><ul>${links.join('')}</ul>`;
    })
    .join('\n');
}

/** The index has some links in the middle of a sentence. */
function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

async function write(address: string, text: string): Promise<void> {
  const path = join(folder, address);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
}
