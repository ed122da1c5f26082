import type { Fault } from '../../foundation/fault.ts';
import { type AskForm, addressOf } from './ask-form.ts';

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
    // What is missing for an image that is kept is its repository.
    field: field === 'freeze' || field === 'format' ? 'repository' : field,
    text: needsLogin ? 'Asking for this requires a login on this server.' : inFormWords(fault),
    login: needsLogin ? loginFor(form) : undefined,
    status: fault.apiStatus,
  };
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
