import { refuseLine, shownText } from '../definition-error.ts';
import type { Header } from '../parser.ts';
import { checkedImage, type StageBase } from './stage-base.ts';

/** Returns the Singularity image that `Bootstrap: oras` names. Throws a `Fault` with the line if it names none. */
export function orasBase(from: Header): StageBase {
  const image = from.value.replace(/^(?:oras:)?\/\//i, '');
  return { image: checkedImage(image, from), packages: [], isSif: true };
}

/**
 * Returns the image that `Bootstrap: localimage` names if it is in a registry. Throws a `Fault` with the line for a
 * file, which is on the machine of the caller.
 */
export function localBase(from: Header, ownHost: string): StageBase {
  const { value } = from;
  if (/^oras:\/\//i.test(value)) return orasBase(from);
  const [, image] = /^docker:\/\/(.*)$/i.exec(value) ?? [];
  if (image !== undefined) return { image: checkedImage(image, from), packages: [] };
  if (value.startsWith(`${ownHost}/`)) return orasBase(from);
  const file = value.slice(value.lastIndexOf('/') + 1) || 'base.sif';
  refuseLine(
    from.line,
    `a build cannot begin with the file ${shownText(value)}, from the build context or the build machine: push it with 'apptainer push ${shownText(file).slice(1, -1)} oras://${ownHost}/<repository>:<tag>', and build from it with 'Bootstrap: oras' and 'From: ${ownHost}/<repository>:<tag>'`,
  );
}

/** Throws the `Fault` of `Bootstrap: shub`. */
export function refuseHub({ line }: Header, ownHost: string): never {
  refuseLine(
    line,
    `Singularity Hub was closed in 2021, and its archive is not a container registry: pull the image with 'apptainer pull base.sif shub://<name>', push it with 'apptainer push base.sif oras://${ownHost}/<repository>:<tag>', and build from it with 'Bootstrap: oras'`,
  );
}
