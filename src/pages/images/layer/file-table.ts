import { type LayerChange, type StoredNode, sizeToSort } from '../../../images/listing/index.ts';
import {
  addressText,
  belowAddress,
  type LayerContents,
  type LayerRow,
  nameText,
  type RowDirectory,
} from '../../../request/index.ts';
import { byteText, countText, type Html, html, shownText } from '../../frame/html.ts';
import { pagingLinks, sortHead } from '../../frame/list-controls.ts';
import { shareBar } from '../inspect-page.ts';
import { type LayerData, layerAddress, layerPath, listedAddress } from './layer-data.ts';

const mostName = 160;

/** What a layer does to a file, in words. */
const changes: Readonly<
  Record<Exclude<LayerChange, 'kept'>, { name: string; mark: string; about: string }>
> = {
  added: { name: 'added', mark: '+', about: 'The layers below do not have it.' },
  changed: {
    name: 'changed',
    mark: '±',
    about: 'It replaces a file with other content in a layer below.',
  },
  attributes: {
    name: 'mode or owner',
    mark: '±',
    about:
      'The content is that of a layer below, and is stored again. Mode, owner or capabilities differ.',
  },
  again: {
    name: 'same again',
    mark: '=',
    about: 'The same file is in a layer below, and is stored again.',
  },
  removed: { name: 'removed', mark: '−', about: 'The layer removes it from the layers below.' },
};

/** Returns links to lists of what the layer has added, changed and removed. */
export function layerChangeLinks({ address }: LayerData, { counts }: StoredNode): Html | false {
  const { image, platform, layer } = address;
  const kinds = (Object.keys(changes) as (keyof typeof changes)[]).filter(kind => counts[kind] > 0);
  if (kinds.length === 0)
    return html`<p class="minor">The layer changes nothing of the layers below.</p>`;
  const all = html`<a href="${layerAddress({ image, platform, layer })}#files"${!address.change && !address.name && html` aria-current="true"`}>All files</a>`;
  const links = kinds.map(kind => {
    const { name, about } = changes[kind];
    const href = layerAddress({ image, platform, layer, change: kind });
    return html`<a href="${href}#files" title="${about}"${address.change === kind && html` aria-current="true"`}>${countText(counts[kind])} ${name}</a>`;
  });
  return html`<nav aria-label="What the layer changes" class="choices changes">${all}${links}</nav>`;
}

/** Returns the files of a directory, or those that a search has found. */
export function fileTable(data: LayerData, contents: LayerContents): Html {
  const { rows, directory, count } = contents;
  const largest = Math.max(1, ...rows.map(({ node }) => sizeToSort(node)));
  return html`<h2 id="files">Files</h2>
${searchForm(data)}
${directory ? trail(data, contents) : searchSummary(data, contents)}
${
  count === 0
    ? emptyText(contents)
    : html`<div class="wide" tabindex="0" role="region" aria-label="Files"><table class="files">
<thead><tr>${orderHead(data, 'name', 'Name')}${orderHead(data, 'size', 'Size')}${data.isCompared && html`<th scope="col">Change</th>`}<th scope="col" class="number">Files</th><th scope="col">Mode</th><th scope="col">Owner</th></tr></thead>
<tbody>${rows.map(row => fileRow(data, row, directory === undefined, largest))}</tbody></table></div>`
}
${pagingLinks(contents, page => `${layerAddress({ ...data.address, page })}#files`)}`;
}

function searchForm({ address, isCompared }: LayerData): Html {
  const { image, platform, layer, name, sort, change } = address;
  const hidden = { image, platform, layer, sort };
  return html`<form method="get" action="${layerPath}#files" class="filters" role="search">
${Object.entries(hidden).map(([key, value]) => value && html`<input type="hidden" name="${key}" value="${value}">`)}
<div><label for="name">Name contains</label><input id="name" name="name" value="${name ?? ''}" maxlength="200" spellcheck="false" autocapitalize="off" autocomplete="off"></div>
${isCompared && html`<div><label for="change">Change</label><select id="change" name="change"><option value="">any</option>${Object.entries(changes).map(([kind, { name: text }]) => html`<option value="${kind}"${kind === change && html` selected`}>${text}</option>`)}</select></div>`}
<button>Search the layer</button></form>`;
}

/** Returns links to the directories above. */
function trail(data: LayerData, { names }: LayerContents): Html {
  const { image, platform, layer, sort } = data.address;
  const link = (text: Html | string, depth: number) => {
    const path = addressText(names.slice(0, depth));
    const href = layerAddress({ image, platform, layer, path, sort });
    return depth === names.length
      ? html`<strong>${text}</strong>`
      : html`<a href="${href}#files">${text}</a>`;
  };
  const hidden = Math.max(0, names.length - 12);
  const shown = names.slice(hidden);
  return html`<nav class="path" aria-label="Directory">${link('/', 0)}${hidden > 0 && html`<span>… /</span>`}${shown.map((name, at) => html`${link(shownText(nameText(name), mostName), hidden + at + 1)}<span aria-hidden="true">/</span>`)}</nav>`;
}

function searchSummary({ address }: LayerData, { count, isCut, pages }: LayerContents): Html {
  const { image, platform, layer, sort } = address;
  const all = layerAddress({ image, platform, layer, sort });
  const few =
    isCut &&
    html` The first ${countText(pages * 100)} are shown: search for a longer part of the name to see others.`;
  return html`<p>${countText(count)} found in the whole layer.${few} <a href="${all}#files">Show all directories</a></p>`;
}

function emptyText({ directory }: LayerContents): Html {
  if (!directory) return html`<p class="empty">No file of the layer matches.</p>`;
  if (directory.number === 0)
    return html`<p class="empty">The layer has no files. It may come from a step that changed nothing.</p>`;
  if (directory.change === 'removed') {
    return html`<p class="empty">The layer removes this: ${countText(directory.goneFiles)} files, ${byteText(directory.goneBytes)}. The layers below have a list of them.</p>`;
  }
  return html`<p class="empty">${directory.kind === 'directory' ? 'An empty directory.' : 'This is not a directory.'}</p>`;
}

function orderHead({ address }: LayerData, sort: 'name' | 'size', text: string): Html {
  const isSize = sort === 'size';
  const head = sortHead({
    text,
    address: `${layerAddress({ ...address, sort, page: 1 })}#files`,
    isSorted: (address.sort ?? 'size') === sort,
    order: isSize ? 'descending' : 'ascending',
    isNumber: isSize,
  });
  return isSize ? html`${head}<td><span class="unseen">Share</span></td>` : head;
}

function fileRow(data: LayerData, row: LayerRow, isFound: boolean, largest: number): Html {
  const { node } = row;
  const isRemoved = node.change === 'removed';
  return html`<tr${isRemoved && html` class="gone"`}><th scope="row">${nameCell(data, row, isFound)}</th>
<td class="number">${sizeCell(node)}</td><td class="bar${node.goneBytes > node.bytes && ' gone'}">${shareBar(sizeToSort(node) / largest)}</td>${data.isCompared && html`<td>${changeCell(node)}</td>`}<td class="number">${filesCell(node)}</td><td>${!isRemoved && !node.isImplicit && modeCell(node)}</td><td class="owner">${!isRemoved && !node.isImplicit && ownerCell(node)}</td></tr>`;
}

function nameCell({ address }: LayerData, row: LayerRow, isFound: boolean): Html {
  const { node, directory } = row;
  const { image, platform, layer, sort } = address;
  const isDirectory = node.kind === 'directory' && node.change !== 'removed';
  const name = html`${shownText(nameText(node.name), mostName)}${node.kind === 'directory' && '/'}`;
  const linkTo = (path: string) => listedAddress({ image, platform, layer, path, sort });
  const href = isDirectory && linkTo(belowAddress(directory.address, node.name));
  const own = href
    ? html`<a href="${href}#files">${name}</a>`
    : node.change === 'removed'
      ? html`<del>${name}</del>`
      : name;
  const link =
    node.link !== '' &&
    html`<br><span class="minor">${node.kind === 'link' ? 'same file as' : '→'} ${shownText(nameText(node.link), mostName)}</span>`;
  return html`<code>${own}</code>${link}${isFound && html`<br><span class="minor">in ${placeOf(directory, linkTo)}</span>`}`;
}

function placeOf(
  { names, address }: RowDirectory,
  linkTo: (path: string) => string | undefined,
): Html {
  const text = shownText(`/${names.map(nameText).join('/')}`, mostName);
  const href = linkTo(address);
  return href ? html`<a href="${href}#files">${text}</a>` : html`${text}`;
}

function changeCell({ change, kind, counts, isImplicit }: StoredNode): Html | false {
  if (change !== 'kept') {
    const { name, about } = changes[change];
    return html`<span class="change ${change}" title="${about}">${name}</span>`;
  }
  if (kind !== 'directory' && !isImplicit) return false;
  const changed = counts.changed + counts.attributes;
  const all = { ...counts, changed, attributes: 0 };
  const shown = (Object.keys(changes) as (keyof typeof changes)[]).filter(one => all[one] > 0);
  return html`<span class="below">${shown.map(
    one =>
      html`<span class="change ${one}" title="${countText(all[one])} ${changes[one].name}">${changes[one].mark}${countText(all[one])}<span class="unseen"> ${changes[one].name}</span></span> `,
  )}</span>`;
}

function sizeCell({ change, bytes, goneBytes, before, kind }: StoredNode): Html {
  if (change === 'removed') return html`−${byteText(goneBytes)}`;
  const was = change === 'changed' && kind === 'file' && before;
  const gone = goneBytes > 0 && html`<br><span class="minor">−${byteText(goneBytes)}</span>`;
  return html`${byteText(bytes)}${was && html`<br><span class="minor">was ${byteText(before.size)}</span>`}${gone}`;
}

function filesCell({ kind, files, change, goneFiles }: StoredNode): string {
  if (change === 'removed') return goneFiles > 0 ? `−${countText(goneFiles)}` : '';
  return kind === 'directory' ? countText(files) : '';
}

function modeCell(node: StoredNode): Html {
  const rights = rightsIn(node);
  const was = node.change === 'attributes' && node.before && node.before.mode !== node.mode;
  return html`<code>${modeText(node)}</code>${rights.map(right => html` <span class="badge wait">${right}</span>`)}${was && html`<br><span class="minor">was <code>${modeText({ ...node, mode: node.before?.mode ?? 0 })}</code></span>`}`;
}

function ownerCell({ uid, gid, change, before }: StoredNode): Html {
  const isMoved = change === 'attributes' && before && (before.uid !== uid || before.gid !== gid);
  return html`${owner(uid, gid)}${isMoved && html`<br><span class="minor">was ${owner(before.uid, before.gid)}</span>`}`;
}

function owner(uid: number, gid: number): string {
  return uid === 0 && gid === 0 ? 'root' : `${uid}:${gid}`;
}

const kinds: Readonly<Record<StoredNode['kind'], string>> = {
  file: '-',
  link: '-',
  directory: 'd',
  symlink: 'l',
  fifo: 'p',
  'character-device': 'c',
  'block-device': 'b',
  whiteout: '-',
};

/** Returns a mode as `ls -l` shows it. */
function modeText({ kind, mode }: Pick<StoredNode, 'kind' | 'mode'>): string {
  const triple = (shift: number, special: boolean, mark: string): string => {
    const bits = (mode >> shift) & 7;
    const runs = (bits & 1) !== 0;
    const last = special ? (runs ? mark : mark.toUpperCase()) : runs ? 'x' : '-';
    return `${bits & 4 ? 'r' : '-'}${bits & 2 ? 'w' : '-'}${last}`;
  };
  const owner = triple(6, (mode & 0o4000) !== 0, 's');
  const group = triple(3, (mode & 0o2000) !== 0, 's');
  return `${kinds[kind]}${owner}${group}${triple(0, (mode & 0o1000) !== 0, 't')}`;
}

/** Returns the extra rights that a program has whoever starts it. */
function rightsIn({
  kind,
  mode,
  hasCapabilities,
}: Pick<StoredNode, 'kind' | 'mode' | 'hasCapabilities'>): readonly string[] {
  if (kind !== 'file' && kind !== 'link') return [];
  return [
    ...(mode & 0o4000 ? ['setuid'] : []),
    ...(mode & 0o2000 ? ['setgid'] : []),
    ...(hasCapabilities ? ['capabilities'] : []),
  ];
}
