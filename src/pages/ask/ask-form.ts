import type { Fault } from '../../foundation/fault.ts';
import { supportedPlatforms } from '../../oci/naming.ts';
import { projectIn } from '../../pypi/index.ts';

/** The kinds of requests for a container. */
export const requestKinds = ['packages', 'file', 'image', 'dockerfile'] as const;
export type RequestKind = (typeof requestKinds)[number];

/** The form as a person filled it in: texts as they were written. */
export interface AskForm {
  readonly by: RequestKind;
  readonly image: string;
  /** Chosen packages, each as `name`, `name=version` or `channel::name=version`. */
  readonly packages: readonly string[];
  /** What is in the search field for packages. */
  readonly search: string;
  /** The package whose versions are shown, as `channel::name`. */
  readonly versionsOf: string;
  /** The text of an environment file or lock file. */
  readonly environment: string;
  readonly dockerfile: string;
  readonly channels: string;
  readonly base: string;
  readonly env: string;
  readonly entrypoint: string;
  readonly workdir: string;
  readonly platforms: readonly string[];
  readonly isSingularity: boolean;
  readonly isKept: boolean;
  readonly repository: string;
}

/** Proxies refuse longer request lines, usually from 8,192 characters. */
export const longestAddress = 7000;
const mostPackages = 500;

// Names in the address, and the members that they stand for.
const texts = {
  image: 'image',
  q: 'search',
  versions: 'versionsOf',
  environment: 'environment',
  dockerfile: 'dockerfile',
  channels: 'channels',
  base: 'base',
  env: 'env',
  entrypoint: 'entrypoint',
  workdir: 'workdir',
  repository: 'repository',
} as const satisfies Record<string, keyof AskForm>;

type TextMember = (typeof texts)[keyof typeof texts];

/** Reads the form from an address or from the body of a form. Unknown values count as absent. */
export function readForm(given: URLSearchParams): AskForm {
  const text = (name: string) => (given.get(name) ?? '').replaceAll('\r\n', '\n');
  const members = Object.fromEntries(
    Object.entries(texts).map(([name, member]) => [member, text(name)]),
  ) as Record<TextMember, string>;
  const packages = given
    .getAll('package')
    .map(one => one.trim())
    .filter(one => one !== '');
  return {
    ...members,
    by: requestKinds.find(kind => kind === given.get('by')) ?? 'packages',
    packages: [...new Set(packages)].slice(0, mostPackages),
    platforms: supportedPlatforms.filter(one => given.getAll('platform').includes(one)),
    isSingularity: given.get('format') === 'sif',
    isKept: given.get('freeze') === 'yes',
  };
}

/** Returns the form as parameters, in a fixed order, without what is empty. */
function formParameters(form: AskForm): URLSearchParams {
  const { by, packages, platforms, isSingularity, isKept } = form;
  return new URLSearchParams([
    ['by', by],
    ...packages.map(one => ['package', one]),
    ...Object.entries(texts)
      .map(([name, member]) => [name, form[member]])
      .filter(([, value]) => value !== ''),
    ...platforms.map(one => ['platform', one]),
    ...(isSingularity ? [['format', 'sif']] : []),
    ...(isKept ? [['freeze', 'yes']] : []),
  ] as [string, string][]);
}

/** Returns the address of the page with this form; undefined for a form that is too long for an address. */
export function addressOf(form: AskForm, more: Readonly<Record<string, string>> = {}) {
  const parameters = formParameters(form);
  for (const [name, value] of Object.entries(more)) parameters.set(name, value);
  const address = `/?${parameters}`;
  return address.length > longestAddress ? undefined : address;
}

/** Returns true for a form without anything to make or to serve. */
export function isEmptyForm({ by, image, packages, environment, dockerfile }: AskForm): boolean {
  const given = { packages: packages.join(''), file: environment, image, dockerfile };
  return given[by].trim() === '';
}

/** Returns true for a form in which somebody searches for packages. */
export function hasSearch({ by, search, versionsOf }: AskForm): boolean {
  return by === 'packages' && (search.trim() !== '' || versionsOf.trim() !== '');
}

/** Returns the channels in the form, in their order. */
export function channelsIn({ channels }: Pick<AskForm, 'channels'>): readonly string[] {
  return channels.split(/[\s,]+/).filter(channel => channel !== '');
}

/** Returns true for a package that is written with more than its name: it is taken as it is written. */
export function isExactPackage(text: string): boolean {
  return /[=<>~![:/]/.test(text);
}

/** Returns the form with a package chosen, in place of another version of it; the search is over. */
export function withPackage(form: AskForm, chosen: string): AskForm {
  const text = chosen.trim();
  const name = nameIn(text);
  const others = form.packages.filter(one => nameIn(one) !== name);
  return { ...form, packages: [...others, text], search: '', versionsOf: '' };
}

/** Returns the form without a package, which must be written as in the form. */
export function withoutPackage(form: AskForm, removed: string): AskForm {
  return { ...form, packages: form.packages.filter(one => one !== removed) };
}

function nameIn(text: string): string {
  const project = projectIn(text);
  if (project !== undefined) return `pip:${project.toLowerCase()}`;
  return /^(?:.+::)?([\w.-]+)/.exec(text)?.[1]?.toLowerCase() ?? text;
}

/** Why a form cannot be answered, in words. */
export interface FormProblem {
  /** The field at fault, by its name in the form; undefined for none. */
  readonly field: FormField | undefined;
  readonly text: string;
  /** Address of the login, where one may help: it leads back to the form. */
  readonly login: string | undefined;
  /** HTTP status. */
  readonly status: number;
}

/** The login accepts no longer addresses to return to. */
const longestReturn = 2000;

/** Labels of the fields, as the page shows them. */
export const labels = {
  image: 'Image',
  package: 'Packages',
  environment: 'Environment file',
  dockerfile: 'Dockerfile',
  channels: 'Channels',
  base: 'Base image',
  env: 'Environment variables',
  entrypoint: 'Entrypoint',
  workdir: 'Working directory',
  platform: 'Platforms',
  format: 'Format',
  freeze: 'Keep it for good',
  repository: 'Repository',
} as const;

export type FormField = keyof typeof labels;

// Fields of the JSON API by the beginning of their names; longer names first.
const fields: readonly (readonly [path: string, field: FormField])[] = [
  ['packages.condaOpts.baseImage', 'base'],
  ['condaOpts.baseImage', 'base'],
  ['packages.cranOpts.rImage', 'base'],
  ['packages.environment', 'environment'],
  ['packages.channels', 'channels'],
  ['packages', 'package'],
  ['containerImage', 'image'],
  ['containerFile', 'dockerfile'],
  ['containerConfig.env', 'env'],
  ['containerConfig.entrypoint', 'entrypoint'],
  ['containerConfig.workingDir', 'workdir'],
  ['containerPlatform', 'platform'],
  ['buildRepository', 'repository'],
  ['format: sif', 'format'],
  ['format', 'format'],
  ['freeze: true', 'freeze'],
  ['freeze', 'freeze'],
];

// Beginnings of sentences about what a field holds.
const subjects: readonly (readonly [begin: RegExp, field: FormField])[] = [
  [/^The (?:Dockerfile|definition file)\b/, 'dockerfile'],
  [/^The environment has no solution\b/, 'package'],
  [/^The channel /, 'channels'],
];

/** Returns the problem that a failure reports, in the words of the form instead of those of the API. */
export function problemOf(fault: Fault, form: AskForm): FormProblem {
  const first = /^'([^']{1,200})'/.exec(fault.message)?.[1];
  const field =
    first === undefined
      ? subjects.find(([begin]) => begin.test(fault.message))?.[1]
      : fieldOf(first);
  const needsLogin = fault.kind === 'unauthorized' && fault.phase === 'credentials';
  return {
    field: shownField(field, form),
    text: needsLogin ? 'Asking for this requires a login on this server.' : inFormWords(fault),
    login: needsLogin ? loginFor(form) : undefined,
    status: fault.apiStatus,
  };
}

/** Returns the field that shows a problem: the form does not show all of them. */
function shownField(field: FormField | undefined, { by }: AskForm): FormField | undefined {
  // What is missing for an image that is kept is its repository.
  if (field === 'freeze' || field === 'format') return 'repository';
  return field === 'package' && by === 'file' ? 'environment' : field;
}

function loginFor(form: AskForm): string {
  const address = addressOf(form) ?? '';
  const isShort = address !== '' && address.length <= longestReturn;
  const back = isShort ? address : `/?by=${form.by}`;
  return `/view/login?to=${encodeURIComponent(back)}`;
}

function inFormWords({ message }: Fault): string {
  return message.replaceAll(/'([\w.: ]+?)(?:\[(\d+)\])?'/g, (all, path: string, at?: string) => {
    const field = fieldOf(path);
    if (field === undefined) return all;
    return at === undefined ? `“${labels[field]}”` : `“${labels[field]}”, entry ${Number(at) + 1},`;
  });
}

function fieldOf(path: string): FormField | undefined {
  return fields.find(
    ([name]) => path === name || (/^[.[:]/.test(path.slice(name.length)) && path.startsWith(name)),
  )?.[1];
}
