import { posix } from 'node:path';
import { refuseLine, shownText } from '../definition-error.ts';
import type { Header } from '../parser.ts';
import { type BaseOptions, checkedImage, type StageBase } from './stage-base.ts';

/** The limit of Linux. */
const longestPath = 4096;

/** Returns the Singularity image that `Bootstrap: oras` names. Throws a `Fault` with the line if it names none. */
export function orasBase(from: Header): StageBase {
  const image = from.value.replace(/^(?:oras:)?\/\//i, '');
  return { image: checkedImage(image, from), packages: [], sif: 'registry' };
}

/**
 * Returns the image that `Bootstrap: localimage` names: one in a registry, or a SIF file in the build context. Throws a
 * `Fault` with the line for a file of the machine of the caller.
 */
export function localBase(from: Header, { ownHost, hasContext }: BaseOptions): StageBase {
  const { value, line } = from;
  if (/^oras:\/\//i.test(value)) return orasBase(from);
  const [, image] = /^docker:\/\/(.*)$/i.exec(value) ?? [];
  if (image !== undefined) return { image: checkedImage(image, from), packages: [] };
  if (value.startsWith(`${ownHost}/`)) return orasBase(from);
  // Normalising takes quadratic time.
  const isPath = value.length <= longestPath;
  const path = isPath ? posix.normalize(value) : '';
  const isInContext = isPath && !/^(?:\/|~|\.\.(?:\/|$)|\.\/?$|\w+:\/)/.test(path);
  if (isInContext && hasContext) return { image: path, packages: [], sif: 'context' };
  const what = isInContext
    ? 'is a file, and the request has no build context: send its directory with the request (sluice build -f image.def DIRECTORY)'
    : 'is not in the build context: put the file there, and write its path in the context';
  refuseLine(
    line,
    `${shownText(value)} ${what}. Or push it with 'apptainer push ${fileName(value)} oras://${ownHost}/<repository>:<tag>', and build from it with 'Bootstrap: oras' and 'From: ${ownHost}/<repository>:<tag>'`,
  );
}

function fileName(path: string): string {
  return shownText(path.slice(path.lastIndexOf('/') + 1) || 'base.sif').slice(1, -1);
}

/** Throws the `Fault` of `Bootstrap: shub`. */
export function refuseHub({ line }: Header, ownHost: string): never {
  refuseLine(
    line,
    `Singularity Hub was closed in 2021, and its archive is not a container registry: pull the image with 'apptainer pull base.sif shub://<name>', push it with 'apptainer push base.sif oras://${ownHost}/<repository>:<tag>', and build from it with 'Bootstrap: oras'`,
  );
}
