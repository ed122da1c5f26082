import { globSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Entry } from '../corpus/layer.ts';
import { type CondaPackage, placeholder } from './conda-package.ts';
import { requireConda } from './tools.ts';

const version = '3.11.2';
const release = '3.11';
// What no test imports, a third of the whole.
const unused = /^(?:config-|ensurepip|idlelib|lib2to3|pydoc_data|tkinter|turtledemo|unittest)/;

/**
 * Python and pip as packages of Conda. Debian's Python is laid out for Debian alone: the prefix is a virtual
 * environment of the one that lies below `libexec`, so that all else is where it is in Conda's own.
 */
export function pythonPackages(): readonly CondaPackage[] {
  const conda = requireConda();
  const home = `${placeholder}/libexec/python/bin`;
  const library = filesBelow(join(conda, 'python/usr/lib', `python${release}`), path =>
    unused.test(path) ? undefined : `libexec/python/lib/python${release}/${path}`,
  );
  const program = readFileSync(join(conda, 'python/usr/bin', `python${release}`));
  const python = {
    name: 'python',
    version,
    files: [
      ...library,
      { name: `libexec/python/bin/python${release}`, content: program, mode: 0o755 },
      ...['python', 'python3', `python${release}`].map(name => ({
        name: `bin/${name}`,
        link: `../libexec/python/bin/python${release}`,
      })),
      { name: 'pyvenv.cfg', content: `home = ${home}\nversion = ${version}\n` },
    ],
  };
  const pip: CondaPackage = {
    name: 'pip',
    version: '25.3',
    noarch: 'python',
    depends: ['python'],
    entryPoints: ['pip = pip._internal.cli.main:main'],
    files: filesBelow(join(conda, 'pip'), path => `site-packages/${path}`),
  };
  return [python, pip];
}

function filesBelow(folder: string, nameOf: (path: string) => string | undefined): Entry[] {
  return globSync('**', { cwd: folder }).flatMap(path => {
    const name = nameOf(path);
    const file = join(folder, path);
    const isFile = statSync(file, { throwIfNoEntry: false })?.isFile() === true;
    return name === undefined || !isFile ? [] : [{ name, content: readFileSync(file) }];
  });
}
