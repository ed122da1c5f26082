import {
  mostCounted,
  type SearchFailures,
  type SearchResult,
  type VersionsResult,
} from '../../conda/index.ts';
import { namedArchitectures } from '../../oci/naming.ts';
import type { ProjectResult } from '../../pypi/index.ts';
import type { Forecast } from '../../request/index.ts';
import { byteText, countText, type Html, html, shortDigest, shownText } from '../frame/html.ts';
import type { FormProblem } from './ask-form.ts';

/** What a dry run found. */
export type PlanView =
  | { readonly kind: 'empty' }
  | { readonly kind: 'waiting' }
  | { readonly kind: 'problem'; readonly problem: FormProblem }
  | {
      readonly kind: 'forecast';
      readonly forecast: Forecast;
      /** Why the build could not start now; undefined if it could. */
      readonly obstacle: string | undefined;
    };

const shownPackages = 1000;

/** Returns what a request would do. A problem has the name of its field, so that a script can put it there. */
export function planPieces(view: PlanView): Html {
  switch (view.kind) {
    case 'empty':
      return html`<p class="minor">Fill in the form, and this place shows what you would get: the image, its packages with their sizes, and what is missing.</p>`;
    case 'waiting':
      return html`<p class="minor" data-waiting>Not checked yet.</p>`;
    case 'problem':
      return problemLine(view.problem);
    case 'forecast':
      return forecastPieces(view.forecast, view.obstacle);
  }
}

/** Returns the sentence about what is wrong, with a link to the login where one may help. */
export function problemLine({ field, text, login }: FormProblem): Html {
  return html`<p class="failure"${field !== undefined && html` data-field="${field}"`}>${text}${login !== undefined && html` <a href="${login}">Log in</a>`}</p>`;
}

function forecastPieces(forecast: Forecast, obstacle: string | undefined): Html {
  const { image, digest, platforms, build, solution, registries } = forecast;
  const problems = [
    ...(obstacle === undefined ? [] : [obstacle]),
    ...registries.flatMap(one => one.problems),
  ];
  const reason = solution?.builderReason ?? solution?.wheelReason;
  return html`${stateLine(forecast, problems.length)}
${[...new Set(problems)].map(text => html`<p class="failure">${text}</p>`)}
<dl class="facts">
<dt>Image</dt><dd><code>${image}</code></dd>
${digest !== undefined && html`<dt>Digest</dt><dd><code title="${digest}">${shortDigest(digest)}</code></dd>`}
${platforms.length > 0 && html`<dt>Platforms</dt><dd>${platforms.join(', ')}</dd>`}
${registries.length > 0 && html`<dt>Registries</dt><dd>${registries.map(registryLine)}</dd>`}
</dl>
${obstacle === undefined && reason !== undefined && html`<p>${reason}</p>`}
${solution?.platforms.map(packageTable)}
${build?.containerFile !== undefined && html`<details><summary>Recipe</summary><pre>${build.containerFile}</pre></details>`}`;
}

function stateLine({ isCached, build, solution }: Forecast, problems: number): Html {
  if (problems > 0) {
    return html`<p><span class="badge bad">Something is missing</span></p>`;
  }
  if (isCached && !build) {
    return html`<p><span class="badge good">Ready</span> The image exists: you get a name for it at once.</p>`;
  }
  if (isCached) {
    return html`<p><span class="badge good">Ready</span> It was built before: nothing has to be made.</p>`;
  }
  const all = (solution?.platforms ?? []).flatMap(({ packages }) => packages);
  if (all.length === 0) return html`<p><span class="badge wait">To be built</span></p>`;
  return html`<p><span class="badge wait">To be built</span> ${countText(all.length)} ${all.length === 1 ? 'package' : 'packages'}, ${sizeOf(all)}${hereText(all)}.</p>`;
}

type Planned = NonNullable<Forecast['solution']>['platforms'][number]['packages'];

function hereText(all: Planned): string {
  const missing = all.filter(({ isHere }) => !isHere);
  if (missing.length === all.length) return '';
  if (missing.length === 0) return '; this server has their layers already';
  return `; this server has the layers of all but ${countText(missing.length)} (${sizeOf(missing)})`;
}

function sizeOf(packages: Planned): string {
  return byteText(packages.reduce((sum, { size = 0 }) => sum + size, 0));
}

function registryLine({
  repository,
  canPull,
  canPush,
  credentials,
}: Forecast['registries'][number]) {
  const rights = [
    canPush === undefined ? (canPull ? 'can be pulled' : 'cannot be pulled') : undefined,
    canPush === undefined ? undefined : canPush ? 'can be pushed to' : 'cannot be pushed to',
    credentials && `with the credentials ${credentials.name} of ${credentials.owner}`,
  ].filter(text => text !== undefined);
  return html`<div><code>${repository}</code> ${rights.join(', ')}</div>`;
}

type PlatformPackages = NonNullable<Forecast['solution']>['platforms'][number];

function packageTable({ platform, packages }: PlatformPackages): Html {
  return html`<details><summary>${countText(packages.length)} packages for ${platform}</summary>
<div class="wide" tabindex="0" role="region" aria-label="Packages for ${platform}"><table>
<thead><tr><th scope="col">Package</th><th scope="col">Version</th><th scope="col" class="number">Size</th><th scope="col">Layer</th></tr></thead>
<tbody>${packages
    .slice(0, shownPackages)
    .map(
      ({ name, version, build, size, isHere, mustBuild }) =>
        html`<tr><td>${name}</td><td>${version} <span class="minor">${build}</span></td><td class="number">${size === undefined ? '' : byteText(size)}</td><td>${mustBuild ? (isHere ? 'script by a builder' : 'built first') : isHere ? 'exists' : 'new'}</td></tr>`,
    )}</tbody>
</table></div>
${packages.length > shownPackages && html`<p class="minor">${countText(packages.length - shownPackages)} more are not shown.</p>`}
</details>`;
}

/** What is below the search field. */
export type Found =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'problem'; readonly text: string }
  | {
      readonly kind: 'packages';
      readonly text: string;
      readonly result: SearchResult;
      /** The package of PyPI with this name. */
      readonly python: ProjectResult;
    }
  | { readonly kind: 'projectVersions'; readonly name: string; readonly result: ProjectResult }
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
      return packageRows(found.text, found.result, found.python);
    case 'projectVersions':
      return projectRows(found.name, found.result);
    case 'versions':
      return versionRows(found.name, found.result);
  }
}

/** Returns true for a search that finds more a little later. */
export function isSearchLate(found: Found): boolean {
  switch (found.kind) {
    case 'packages':
      return found.result.failures.late.length > 0 || found.python.isLate;
    case 'versions':
      return found.result.failures.late.length > 0;
    case 'projectVersions':
      return found.result.isLate;
    default:
      return false;
  }
}

function packageRows(text: string, result: SearchResult, python: ProjectResult): Html {
  const { packages, total, meant, failures, isDescribing } = result;
  // Beside the package of Conda with the same name, which needs no other index.
  const isSame = packages[0] !== undefined && packages[0].name === python.project?.name;
  const kind = python.project === undefined ? 'package' : 'package of Conda';
  const count =
    total === 0
      ? failures.late.length === 0 &&
        html`No ${kind} ${failures.problems.length > 0 && 'of a channel that could be read '}has “${text}” in its name.${meant !== undefined && html` Did you mean ${meant}?`}`
      : total > packages.length
        ? html`The best ${packages.length} of ${total >= mostCounted ? 'more than ' : ''}${countText(total)} matches:`
        : html`${countText(total)} ${total === 1 ? 'match' : 'matches'}:`;
  return html`${failureLines(failures)}<p class="hint" role="status">${count}</p>
${indexLines(python)}
<ul class="matches"${isDescribing && html` data-more`}>${isSame ? '' : projectRow(python)}${packages.map(
    ({ name, channels, subdirs, about }, at) => html`<li>
<button class="quiet add" name="add" value="${name}" aria-label="Add ${name}"><span aria-hidden="true">+</span> ${name}</button>
<span class="about">${about && html`<span>${shownText(about.summary, longestSummary)}</span>`}
<span class="minor">${about?.version !== undefined && html`${about.version} · `}${channels.join(', ')} · ${platformsText(subdirs)}</span></span>
<button class="quiet" name="versions" value="${name}" aria-label="Versions of ${name}">Versions</button>
</li>${isSame && at === 0 && projectRow(python)}`,
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

/** Returns the row of a Python package beside those of Conda. */
function projectRow({ project }: ProjectResult): Html {
  const [newest] = project?.versions ?? [];
  if (project === undefined || newest === undefined) return html``;
  const spec = `pip:${project.name}`;
  return html`<li>
<button class="quiet add" name="add" value="${spec}" aria-label="Add ${project.name} of PyPI"><span aria-hidden="true">+</span> ${project.name}</button>
<span class="about"><span><span class="badge">PyPI</span> Python package</span>
<span class="minor">${newest.version}${!newest.hasWheel && ' · no wheel'}</span></span>
<button class="quiet" name="versions" value="${spec}" aria-label="Versions of ${project.name} of PyPI">Versions</button>
</li>`;
}

function projectRows(name: string, result: ProjectResult): Html {
  const { project, isLate, problem } = result;
  if (project === undefined) {
    const isMissing = !isLate && problem === undefined;
    return html`${indexLines(result)}${isMissing && html`<p class="hint" role="status">PyPI has no package ${name}.</p>`}`;
  }
  const { versions, hasMore } = project;
  const number = versions.length;
  return html`<p class="hint" role="status">${hasMore && 'The newest '}${number} ${number === 1 ? 'version' : 'versions'} of <strong>${project.name}</strong> <span class="badge">PyPI</span>:</p>
<ul class="matches">${versions.map(({ version, hasWheel }) => {
    const spec = `pip:${project.name}==${version}`;
    return html`<li>
<button class="quiet add" name="add" value="${spec}" aria-label="Add ${spec}"><span aria-hidden="true">+</span> ${version}</button>
<span class="about minor">PyPI${!hasWheel && ' · no wheel: requires a builder'}</span>
</li>`;
  })}</ul>`;
}

function indexLines({ problem, isLate }: ProjectResult): Html {
  return html`${problem !== undefined && html`<p class="hint">PyPI could not be searched: ${problem}</p>`}
${isLate && html`<p class="hint" data-late>This server is asking PyPI for a package of this name.</p>`}`;
}

function platformsText(subdirs: readonly string[]): string {
  return subdirs.map(subdir => platformNames[subdir] ?? subdir).join(', ');
}

function failureLines({ problems, late }: SearchFailures): Html {
  return html`${problems.map(text => html`<p class="failure">${text}</p>`)}
${late.length > 0 && html`<p class="hint" data-late>This server is fetching the list of packages of ${late.join(', ')}. The first search there takes some seconds, later ones are fast.</p>`}`;
}
