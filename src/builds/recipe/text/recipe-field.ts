import { formatReference, OciSyntaxError, parseReference } from '../../../oci/naming.ts';
import { oneLine, refuse, shown } from './text-field.ts';

/** Returns the full name of an image that packages are added to. Throws a `Fault` that names the field. */
export function imageName(field: string, text: string): string {
  const name = oneLine(field, text);
  if (name === 'scratch')
    refuse(
      `'${field}': packages require an image with a C library, and 'scratch' is empty: name another image, or leave the field out`,
    );
  try {
    return formatReference(parseReference(name));
  } catch (error) {
    if (!(error instanceof OciSyntaxError)) throw error;
    refuse(`'${field}': ${error.message}`);
  }
}

// Instructions that a command may be; any other instruction would change the structure of the recipe.
const takenInstruction = /^(?:ENV|LABEL|USER|WORKDIR)\s/;
const refusedInstruction =
  /^(?:ADD|ARG|CMD|COPY|ENTRYPOINT|EXPOSE|FROM|HEALTHCHECK|MAINTAINER|ONBUILD|SHELL|STOPSIGNAL|VOLUME)\s/;

/**
 * Returns a command as a line of a Dockerfile. Clients send shell commands or whole `RUN` lines; ENV, LABEL, USER and
 * WORKDIR are also accepted.
 */
export function commandLine(field: string, text: string): string {
  const line = oneLine(field, text);
  if (line.endsWith('\\')) refuse(`'${field}' ends in a backslash: write the command on one line`);
  if (takenInstruction.test(line)) return line;
  const instruction = refusedInstruction.exec(line)?.[0].trim();
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
