import {
  ArchiveProblem,
  checkedPath,
  checkPaths,
  compareNames,
  fileMode,
  type PythonPlace,
  showPath,
  type ZipMember,
} from '../../conda/installing/index.ts';
import { projectName } from '../wheel-file.ts';
import { commandProgram, isPythonName, type WheelCommand } from './entry-points.ts';
import type { RecordedFile } from './wheel-record.ts';

/** A path of a wheel in the environment, and what is installed there. */
export interface WheelPath {
  /** Relative to the prefix. */
  readonly path: string;
  readonly source: WheelSource;
  /** What the `RECORD` that is written says about it, once that is known; for most files, what the wheel's own says. */
  recorded?: RecordedFile;
}

export type WheelSource =
  | { readonly kind: 'directory' }
  | { readonly kind: 'member'; readonly member: ZipMember; readonly isScript: boolean }
  /** A file of the installer. */
  | { readonly kind: 'own'; readonly bytes: Buffer; readonly mode: number }
  | { readonly kind: 'record' };

export interface WheelPlanInput {
  /** Each path once; directories end with a slash. */
  readonly members: ReadonlyMap<string, ZipMember>;
  /** `numpy-2.1.0` */
  readonly stem: string;
  readonly name: string;
  readonly python: PythonPlace;
  /** Absolute path of the interpreter. */
  readonly interpreter: string;
  readonly commands: ReadonlyMap<string, WheelCommand>;
  /** Content of `direct_url.json`. */
  readonly directUrl: string | undefined;
}

/** Of programs and directories. */
export const programMode = 0o755;
/** What `INSTALLER` says. */
const installerName = 'sluice';
/** Names by which `scripts` may have a program that an entry point brings also. */
const scriptEnd = /(?:\.exe|-script\.py|\.pya)$/;

/**
 * Returns the paths of a wheel in the environment, sorted name by name. What an installer writes replaces members of its
 * name, and data of the wheel other members. Throws `ArchiveProblem` for data of an unknown kind, for two files of one name, for a path
 * below a file, and for a name that means something else in a layer. Source: PyPA specifications, Binary distribution format.
 */
export function planWheel(input: WheelPlanInput): WheelPath[] {
  const { members, stem, python, interpreter, commands, directUrl } = input;
  const { sitePackages } = python;
  const planned = new Map<string, WheelSource>();
  const dataRoot = `${stem}.data/`;
  const data: [path: string, source: WheelSource][] = [];
  for (const [path, member] of members) {
    const isDirectory = path.endsWith('/');
    const plain = isDirectory ? path.slice(0, -1) : path;
    if (`${plain}/` === dataRoot) continue;
    const source: WheelSource = isDirectory
      ? { kind: 'directory' }
      : { kind: 'member', member, isScript: false };
    if (path.startsWith(dataRoot)) {
      const placed = placeOf(plain, source, input);
      if (placed) data.push(placed);
    } else planned.set(`${sitePackages}/${plain}`, source);
  }
  for (const [path, source] of data) planned.set(checkedPath(path), source);
  for (const command of commands.values()) {
    const bytes = commandProgram(command, interpreter);
    planned.set(`bin/${command.name}`, { kind: 'own', bytes, mode: programMode });
  }
  const own = (name: string, text: string) =>
    planned.set(`${sitePackages}/${stem}.dist-info/${name}`, {
      kind: 'own',
      bytes: Buffer.from(text),
      mode: fileMode,
    });
  own('INSTALLER', installerName);
  // As in uv, whoever asked for the wheel: it has one layer.
  own('REQUESTED', '');
  if (directUrl === undefined) planned.delete(`${sitePackages}/${stem}.dist-info/direct_url.json`);
  else own('direct_url.json', directUrl);
  planned.set(`${sitePackages}/${stem}.dist-info/RECORD`, { kind: 'record' });
  const paths = [...planned]
    .map(([path, source]): WheelPath => ({ path, source }))
    .sort((one, other) => compareNames(one.path, other.path));
  checkPaths(paths);
  return paths;
}

/** Returns where data of the wheel goes; undefined for what an entry point replaces. */
function placeOf(
  path: string,
  source: WheelSource,
  { stem, name, python, commands }: WheelPlanInput,
): [path: string, source: WheelSource] | undefined {
  const { sitePackages, minorVersion } = python;
  const [, kind = '', rest] =
    /^([^/]*)(?:\/(.*))?$/s.exec(path.slice(`${stem}.data/`.length)) ?? [];
  const isDirectory = source.kind === 'directory';
  const roots: Readonly<Record<string, string>> = {
    purelib: `${sitePackages}/`,
    platlib: `${sitePackages}/`,
    headers: `include/python${minorVersion}/${projectName(name)}/`,
    scripts: 'bin/',
    data: '',
  };
  const root = Object.hasOwn(roots, kind) ? roots[kind] : undefined;
  if (root === undefined || (rest === undefined && !isDirectory)) {
    throw new ArchiveProblem(`has data of an unknown kind, ${showPath(path)}`);
  }
  if (rest === undefined) return undefined;
  if (kind !== 'scripts' || source.kind !== 'member') return [root + rest, source];
  if (rest.includes('/')) {
    throw new ArchiveProblem(`has a script in a directory, ${showPath(path)}`);
  }
  if (isPythonName(rest)) {
    throw new ArchiveProblem(`has a script with the name of Python, ${showPath(path)}`);
  }
  if (commands.has(rest.replace(scriptEnd, ''))) return undefined;
  return [root + rest, { ...source, isScript: true }];
}
