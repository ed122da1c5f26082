import { ArchiveProblem, checkedPath, showPath } from '../../archives/archive-checks.ts';
import type { PythonPlace } from '../installed-package.ts';
import { pythonShebang } from '../prefix/text-patches.ts';
import { isObject, type PackageDocuments } from './package-documents.ts';

/** A command of a `noarch: python` package: a script is written for it. */
export interface EntryPoint {
  readonly command: string;
  readonly module: string;
  readonly function: string;
}

const dottedName = /^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*$/;
const commandName = /^[^./\\\0][^/\\\0]*$/;

/** Returns the entry points of `info/link.json`. Throws `ArchiveProblem` for one that is not well-formed. */
export function entryPointsOf(documents: PackageDocuments): EntryPoint[] {
  const noarch = documents.json('link.json')?.noarch;
  const list = isObject(noarch) ? (noarch.entry_points ?? []) : [];
  if (!Array.isArray(list)) throw new ArchiveProblem('has a damaged info/link.json');
  return list.map(readEntryPoint);
}

function readEntryPoint(value: unknown): EntryPoint {
  const text = typeof value === 'string' ? value : '';
  const equals = text.indexOf('=');
  const colon = text.indexOf(':', equals);
  const command = text.slice(0, equals).trim();
  const module = text.slice(equals + 1, colon).trim();
  const name = text.slice(colon + 1).trim();
  const isSafe = commandName.test(command) && dottedName.test(module) && dottedName.test(name);
  if (equals < 0 || colon < 0 || !isSafe) {
    throw new ArchiveProblem(
      `has an entry point that is not of the form command = module:function, ${showPath(text)}`,
    );
  }
  checkedPath(`bin/${command}`);
  return { command, module, function: name };
}

/** Returns the script of an entry point, as rattler writes it. */
export function entryPointScript(
  { module, function: name }: EntryPoint,
  prefix: string,
  { minorVersion }: PythonPlace,
): Buffer {
  // The free-threaded Python has the same name.
  const python = `${prefix}/bin/python${minorVersion.replace(/t$/, '')}`;
  return Buffer.from(
    [
      pythonShebang(python),
      '# -*- coding: utf-8 -*-',
      'import re',
      'import sys',
      '',
      `from ${module} import ${name.split('.', 1)[0]}`,
      '',
      "if __name__ == '__main__':",
      "\tsys.argv[0] = re.sub(r'(-script\\.pyw?|\\.exe)?$', '', sys.argv[0])",
      `\tsys.exit(${name}())`,
      '',
    ].join('\n'),
  );
}
