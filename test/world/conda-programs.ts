import { type CondaPackage, placeholder } from './conda-package.ts';

/** A program that prints its name, and the files that it finds by the prefix of its installation. */
export function program(
  name: string,
  version: string,
  more: Partial<CondaPackage> = {},
): CondaPackage {
  const script = `#!/bin/sh\necho ${name} ${version} "$@"\ncat ${placeholder}/share/* 2>/dev/null || :\n`;
  return {
    ...{ name, version, ...more },
    files: [{ name: `bin/${name}`, content: script, mode: 0o755 }],
  };
}

/** A file that names the prefix of its installation. */
export function library(version: string, more: Partial<CondaPackage> = {}): CondaPackage {
  const content = `library ${version} below ${placeholder}\n`;
  return { name: 'library', version, ...more, files: [{ name: 'share/library', content }] };
}

/** A Python package for any platform, with a command. */
export const hello: CondaPackage = {
  ...{ name: 'hello', version: '1', noarch: 'python', depends: ['python >=3.11'] },
  entryPoints: ['hello = hello:main'],
  files: [
    {
      name: 'site-packages/hello.py',
      content: 'import sys\ndef main():\n  print("hello from", sys.executable)\n',
    },
  ],
};
