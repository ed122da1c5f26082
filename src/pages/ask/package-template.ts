import { mostCounted } from '../../conda/search/name-search.ts';
import type {
  SearchFailures,
  SearchResult,
  VersionsResult,
} from '../../conda/search/package-search.ts';
import { byteText, countText } from '../frame/formats.ts';
import { type Html, html } from '../frame/html.ts';

/** What is below the search field. */
export type Found =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'problem'; readonly text: string }
  | { readonly kind: 'packages'; readonly text: string; readonly result: SearchResult }
  | { readonly kind: 'versions'; readonly name: string; readonly result: VersionsResult };

const platformNames: Readonly<Record<string, string>> = {
  'linux-64': 'amd64',
  'linux-aarch64': 'arm64',
  noarch: 'all platforms',
};

/** Returns the chosen packages, each with a button that removes it. */
export function chosenPieces(packages: readonly string[]): Html {
  if (packages.length === 0) return html`<p class="hint">No package chosen yet.</p>`;
  return html`<ul class="chips" aria-label="Chosen packages">${packages.map(
    one =>
      html`<li class="chip"><input type="hidden" name="package" value="${one}"><code>${one}</code><button name="remove" value="${one}" aria-label="Remove ${one}" title="Remove">×</button></li>`,
  )}</ul>`;
}

/** Returns the packages that a search found, or the versions of one. */
export function foundPieces(found: Found): Html {
  switch (found.kind) {
    case 'nothing':
      return html``;
    case 'problem':
      return html`<p class="failure">${found.text}</p>`;
    case 'packages':
      return packageRows(found.text, found.result);
    case 'versions':
      return versionRows(found.name, found.result);
  }
}

function packageRows(text: string, { packages, total, failures }: SearchResult): Html {
  const count =
    total === 0
      ? failures.late.length === 0 && html`No package with “${text}” in its name.`
      : total > packages.length
        ? html`The best ${packages.length} of ${total >= mostCounted ? 'more than ' : ''}${countText(total)} matches:`
        : html`${countText(total)} ${total === 1 ? 'match' : 'matches'}:`;
  return html`${failureLines(failures)}<p class="hint" role="status">${count}</p>
<ul class="matches">${packages.map(
    ({ name, channels, subdirs }) => html`<li>
<button class="quiet add" name="add" value="${name}" aria-label="Add ${name}"><span aria-hidden="true">+</span> ${name}</button>
<span class="minor">${channels.join(', ')} · ${platformsText(subdirs)}</span>
<button class="quiet" name="versions" value="${name}" aria-label="Versions of ${name}">Versions</button>
</li>`,
  )}</ul>`;
}

function versionRows(name: string, { versions, hasMore, failures }: VersionsResult): Html {
  const first = versions[0]?.channel;
  const isOne = versions.every(({ channel }) => channel === first);
  const number = versions.length;
  const count =
    number === 0
      ? html`No version of ${name} in these channels.`
      : html`${hasMore && 'The newest '}${number} ${number === 1 ? 'version' : 'versions'} of <strong>${name}</strong>:`;
  return html`${failureLines(failures)}<p class="hint" role="status">${count}</p>
<ul class="matches">${versions.map(({ version, channel, subdirs, size }) => {
    const spec = `${isOne ? '' : `${channel}::`}${name}=${version}`;
    return html`<li>
<button class="quiet add" name="add" value="${spec}" aria-label="Add ${spec}"><span aria-hidden="true">+</span> ${version}</button>
<span class="minor">${channel} · ${platformsText(subdirs)}${size !== undefined && html` · ${byteText(size)}`}</span>
</li>`;
  })}</ul>`;
}

function platformsText(subdirs: readonly string[]): string {
  return subdirs.map(subdir => platformNames[subdir] ?? subdir).join(', ');
}

function failureLines({ problems, late }: SearchFailures): Html {
  return html`${problems.map(text => html`<p class="failure">${text}</p>`)}
${late.length > 0 && html`<p class="hint" data-late>This server is fetching the packages of ${late.join(', ')}: the first search takes a moment. Search again if nothing changes.</p>`}`;
}
