import { formatReference, OciSyntaxError, parseReference } from '../../../oci/naming.ts';
import type { SubmittedCondaOptions } from '../submitted.ts';
import { oneLine } from '../text/one-line.ts';
import { refuse, shown } from '../text/refuse.ts';
import { sortedOnce } from '../text/sorted.ts';
import type { CondaOptions } from './conda-source.ts';
import { readPackage } from './package-spec.ts';

/** Defaults for a request without options. */
const defaultOptions = {
  mambaImage: 'mambaorg/micromamba:1.5.10-noble',
  baseImage: 'ubuntu:24.04',
  basePackages: 'conda-forge::procps-ng',
} as const;

/**
 * The full names of the images with the package manager that existing clients send without being asked to. Source:
 * reference service, defaults of its two templates.
 */
export const usualMambaImages: readonly string[] = [
  defaultOptions.mambaImage,
  'mambaorg/micromamba:2-amazon2023',
].map(name => formatReference(parseReference(name)));

// Instructions that a command may be; any other instruction would change the structure of the recipe.
const taken = /^(?:ENV|LABEL|USER|WORKDIR)\s/;
const refused =
  /^(?:ADD|ARG|CMD|COPY|ENTRYPOINT|EXPOSE|FROM|HEALTHCHECK|MAINTAINER|ONBUILD|SHELL|STOPSIGNAL|VOLUME)\s/;

/**
 * Reads the options of a conda build. Returns the full names of images. Splits `basePackages` at blanks; an empty text
 * means no packages. Throws a `Fault` that names the field. Source: specification 2.3; `baseImage` is not in it.
 */
export function readCondaOptions(
  field: string,
  submitted: SubmittedCondaOptions = {},
): CondaOptions {
  const { mambaImage, baseImage, basePackages, commands = [] } = submitted;
  return {
    mambaImage: readImage(`${field}.mambaImage`, mambaImage ?? defaultOptions.mambaImage),
    baseImage: readImage(`${field}.baseImage`, baseImage ?? defaultOptions.baseImage),
    basePackages: readBasePackages(
      `${field}.basePackages`,
      basePackages ?? defaultOptions.basePackages,
    ),
    commands: commands.map((command, position) =>
      readCommand(`${field}.commands[${position}]`, command),
    ),
  };
}

function readImage(field: string, text: string): string {
  const name = oneLine(field, text);
  if (name === 'scratch')
    refuse(
      `'${field}': conda packages require an image with a C library, and 'scratch' is empty: name another image, or leave the field out`,
    );
  try {
    return formatReference(parseReference(name));
  } catch (error) {
    if (!(error instanceof OciSyntaxError)) throw error;
    refuse(`'${field}': ${error.message}`);
  }
}

function readBasePackages(field: string, text: string): readonly string[] {
  return sortedOnce(
    text
      .split(/\s+/)
      .filter(word => word !== '')
      .map(word => readPackage(field, word)),
  );
}

/**
 * Returns a command as a line of a Dockerfile. Clients send shell commands or whole `RUN` lines; ENV, LABEL, USER and
 * WORKDIR are also accepted.
 */
function readCommand(field: string, text: string): string {
  const line = oneLine(field, text);
  if (line.endsWith('\\')) refuse(`'${field}' ends in a backslash: write the command on one line`);
  if (taken.test(line)) return line;
  const instruction = refused.exec(line)?.[0].trim();
  if (instruction !== undefined) {
    refuse(
      `'${field}': ${instruction} is not possible here: use 'containerFile', or 'containerConfig' for the entrypoint and the command`,
    );
  }
  const command = line.replace(/^RUN\s+/, '');
  if (command === '')
    refuse(
      `'${field}': ${shown(line)} runs nothing: write a command after RUN, or remove the entry`,
    );
  return isPlain(command) ? `RUN ${command}` : `RUN ["/bin/sh", "-c", ${JSON.stringify(command)}]`;
}

// Returns false for what RUN would not pass to the shell unchanged: options, a JSON array, a here-document.
function isPlain(command: string): boolean {
  return !/^(?:--|\[)/.test(command) && !command.includes('<<');
}
