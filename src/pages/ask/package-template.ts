import {
  mostCounted,
  type SearchFailures,
  type SearchResult,
  type VersionsResult,
} from '../../conda/index.ts';
import { namedArchitectures } from '../../oci/naming.ts';
import { byteText, countText } from '../frame/formats.ts';
import { type Html, html } from '../frame/html.ts';
import { shownText } from '../frame/shown-text.ts';

/** What is below the search field. */
export type Found =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'problem'; readonly text: string }
  | { readonly kind: 'packages'; readonly text: string; readonly result: SearchResult }
  | { readonly kind: 'versions'; readonly name: string; readonly result: VersionsResult };

const longestSummary = 200;

const platformNames: Readonly<Record<string, string>> = {
  ...Object.fromEntries(namedArchitectures.map(([name, { subdir }]) => [subdir, name])),
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

/** Returns true for a search that finds more a little later. */
export function isSearchLate(found: Found): boolean {
  const hasResults = found.kind === 'packages' || found.kind === 'versions';
  return hasResults && found.result.failures.late.length > 0;
}

function packageRows(text: string, result: SearchResult): Html {
  const { packages, total, failures, isDescribing } = result;
  const count =
    total === 0
      ? failures.late.length === 0 && html`No package with “${text}” in its name.`
      : total > packages.length
        ? html`The best ${packages.length} of ${total >= mostCounted ? 'more than ' : ''}${countText(total)} matches:`
        : html`${countText(total)} ${total === 1 ? 'match' : 'matches'}:`;
  return html`${failureLines(failures)}<p class="hint" role="status">${count}</p>
<ul class="matches"${isDescribing && html` data-more`}>${packages.map(
    ({ name, channels, subdirs, about }) => html`<li>
<button class="quiet add" name="add" value="${name}" aria-label="Add ${name}"><span aria-hidden="true">+</span> ${name}</button>
<span class="about">${about && html`<span>${shownText(about.summary, longestSummary)}</span>`}
<span class="minor">${about?.version !== undefined && html`${about.version} · `}${channels.join(', ')} · ${platformsText(subdirs)}</span></span>
<button class="quiet" name="versions" value="${name}" aria-label="Versions of ${name}">Versions</button>
</li>`,
  )}</ul>`;
}

function versionRows(name: string, result: VersionsResult): Html {
  const { versions, hasMore, about, failures } = result;
  const first = versions[0]?.channel;
  const isOne = versions.every(({ channel }) => channel === first);
  const number = versions.length;
  const count =
    number === 0
      ? html`No version of ${name} in these channels.`
      : html`${hasMore && 'The newest '}${number} ${number === 1 ? 'version' : 'versions'} of <strong>${name}</strong>:`;
  return html`${failureLines(failures)}<p class="hint" role="status">${count}</p>
${about && html`<p class="hint">${shownText(about.summary, longestSummary)}</p>`}
<ul class="matches">${versions.map(({ version, channel, subdirs, size }) => {
    const spec = `${isOne ? '' : `${channel}::`}${name}=${version}`;
    return html`<li>
<button class="quiet add" name="add" value="${spec}" aria-label="Add ${spec}"><span aria-hidden="true">+</span> ${version}</button>
<span class="about minor">${channel} · ${platformsText(subdirs)}${size !== undefined && html` · ${byteText(size)}`}</span>
</li>`;
  })}</ul>`;
}

function platformsText(subdirs: readonly string[]): string {
  return subdirs.map(subdir => platformNames[subdir] ?? subdir).join(', ');
}

function failureLines({ problems, late }: SearchFailures): Html {
  return html`${problems.map(text => html`<p class="failure">${text}</p>`)}
${late.length > 0 && html`<p class="hint" data-late>This server is fetching the list of packages of ${late.join(', ')}. The first search there takes some seconds, later ones are fast.</p>`}`;
}
