import { globSync, readFileSync, statSync } from 'node:fs';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { createRequire, isBuiltin } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Metafile, type Plugin } from 'esbuild';

const project = fileURLToPath(new URL('..', import.meta.url));

/** The folder of the bundle, and the file in it that has the state of its sources. `bin/bundle.js` reads them. */
export const bundleName = '.bundle';
export const sourcesName = 'sources.json';
const serverName = 'server.cjs';

/** Packages with native parts or WebAssembly, which run beside the bundle. */
export const unbundled = [
  '@conda-org/rattler',
  '@node-rs/argon2',
  '@node-rs/bcrypt',
  'better-sqlite3',
];

// How modules name what is beside them. Programs and threads are started by their path: each becomes a file of its own.
const places =
  /new URL\(\s*'(?<started>[^']+)\.ts',\s*import\.meta\.url,?\s*\)|import\.meta\.(?:url|dirname)\b/g;

/**
 * Makes the bundle: the command `sluice` and all its threads, with the packages they import, as a few large files that
 * load faster than 1,400 small ones. `bin/sluice.js` runs it. Throws an `Error` with the messages of esbuild.
 *
 * @param folder which has what the server reads beside its modules at the paths of the project: the project or a package
 */
export async function makeBundle(folder = project): Promise<void> {
  const bundle = join(folder, bundleName);
  const draft = `${bundle}.${process.pid}`;
  const common = {
    absWorkingDir: project,
    outdir: draft,
    bundle: true,
    platform: 'node',
    target: 'node24',
    sourcemap: 'linked',
    sourcesContent: false,
    legalComments: 'none',
    metafile: true,
    logLevel: 'error',
  } as const;
  const external = [...unbundled, 'pg-native', 'xmlbuilder2', 'libxmljs2'];
  const plugins = [ownPlaces, modulesOfNode, latePackages];
  const program = await build({
    ...common,
    entryPoints: entryPoints(),
    splitting: true,
    format: 'esm',
    external,
    plugins,
    // Packages in CommonJS require modules of Node. Own modules have the usual name already.
    banner: {
      js: "import { createRequire as requireOf } from 'node:module';const require = requireOf(import.meta.url);",
    },
  });
  // What `bin/one-file.js` runs. With line ends and spaces, its text would take 4 MB more memory.
  const server = await build({
    ...common,
    entryPoints: { server: 'src/cli/program.ts' },
    format: 'cjs',
    minifyWhitespace: true,
    lineLimit: 160,
    sourcemap: false,
    write: false,
    define: { 'import.meta.url': 'bundleUrl', 'import.meta.dirname': 'bundleFolder' },
    external,
    plugins,
  });
  for (const { text } of server.outputFiles) {
    await writeFile(join(draft, serverName), asciiOf(text));
  }
  const packages = await build({
    ...common,
    entryPoints: [...late],
    format: 'cjs',
    outExtension: { '.js': '.cjs' },
    plugins: [usedOfUndici],
  });
  const inputs = {
    ...packages.metafile.inputs,
    ...server.metafile.inputs,
    ...program.metafile.inputs,
  };
  await writeFile(join(draft, 'LICENSES.txt'), licensesOf(inputs));
  await writeFile(join(draft, sourcesName), JSON.stringify(statesOf(inputs)));
  await rm(bundle, { recursive: true, force: true });
  await rename(draft, bundle);
}

/**
 * Returns the same program in ASCII: V8 keeps it with one byte for each character. esbuild leaves other characters in the
 * templates of a function, which could read the text as it is written; those of the project do not.
 */
function asciiOf(program: string): string {
  return program.replace(
    /[\u0080-\uffff]/g,
    unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Returns the program and each file that is started by its path, by their names in the bundle. */
function entryPoints(): Record<string, string> {
  const entries: Record<string, string> = { main: 'src/cli/main.ts' };
  for (const path of globSync('src/**/*.ts', { cwd: project })) {
    for (const { groups } of readFileSync(join(project, path), 'utf8').matchAll(places)) {
      const { started } = groups ?? {};
      if (started) entries[basename(started)] = join(dirname(path), `${started}.ts`);
    }
  }
  return entries;
}

// In a bundle, a package in CommonJS that is loaded later has a default export only.
const latePackage = /\bawait import\('[^.'][^']*'\)/g;
const named = "$&.then(it => (Object.keys(it).join() === 'default' ? it.default : it))";

/** Modules in the bundle find what is beside their sources, and the programs and threads of the bundle. */
const ownPlaces: Plugin = {
  name: 'own-places',
  setup({ onLoad }) {
    onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      const source = relative(project, path);
      if (source.startsWith('node_modules')) return undefined;
      const text = await readFile(path, 'utf8');
      const contents = text.replace(places, (place, started?: string) => {
        if (started) return `new URL('./${basename(started)}.js', import.meta.url)`;
        if (place === 'import.meta.url') return `new URL('../${source}', import.meta.url).href`;
        return `(import.meta.dirname + '/../${dirname(source)}')`;
      });
      return { contents: contents.replace(latePackage, named), loader: 'ts' };
    });
  },
};

/**
 * Modules read what they use of a module of Node where the bundle begins. An `import` would read all of its exports, for
 * each file of the bundle, and some load much: `WebSocket` of `node:http` the client for HTTP, `stdin` of `node:process` streams.
 */
const modulesOfNode: Plugin = {
  name: 'modules-of-node',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[^.]/ }, ({ path, kind }) =>
      kind === 'import-statement' && isBuiltin(path) ? { path, namespace: 'node' } : undefined,
    );
    onLoad({ filter: /.*/, namespace: 'node' }, ({ path }) => {
      const names = Object.keys(process.getBuiltinModule(path) ?? {});
      const own = names.filter(name => /^(?!default$)[\w$]+$/.test(name));
      return {
        contents: [
          `const all = process.getBuiltinModule('${path}');`,
          'export default all;',
          ...own.map(name => `export const ${name} = /* @__PURE__ */ (() => all.${name})();`),
        ].join('\n'),
      };
    });
  },
};

// Packages in CommonJS that a start does not use: YAML without a configuration file, domains and requests before the first request.
const late = ['yaml', 'tldts', 'undici'];

/** Packages in files of their own, which the first use of a function or class loads. Own modules import them as always. */
const latePackages: Plugin = {
  name: 'late-packages',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^[a-z]/ }, ({ path, kind }) =>
      kind === 'import-statement' && late.includes(path) ? { path, namespace: 'late' } : undefined,
    );
    onResolve({ filter: /^/, namespace: 'late' }, ({ path }) => ({ path, external: true }));
    onLoad({ filter: /.*/, namespace: 'late' }, ({ path }) => {
      const all = createRequire(join(project, 'package.json'))(path);
      const names = Object.keys(all).filter(name => typeof all[name] === 'function');
      return {
        contents: [
          'const lateOf = find => new Proxy(function () {}, {',
          '  apply: (_, self, args) => Reflect.apply(find(), self, args),',
          '  construct: (_, args) => Reflect.construct(find(), args),',
          '  get: (_, name) => find()[name],',
          '});',
          ...names.map(
            name =>
              `export const ${name} = /* @__PURE__ */ lateOf(() => require('./${path}.cjs').${name});`,
          ),
        ].join('\n'),
      };
    });
  },
};

/**
 * The index of undici loads all that it has: another `fetch`, WebSockets, caches, mocks. A start takes a tenth longer. The bundle has what
 * requests need; every other name is a function that throws.
 */
const usedOfUndici: Plugin = {
  name: 'used-of-undici',
  setup({ onResolve, onLoad }) {
    const unused =
      /^\.\/lib\/(?:mock|web|interceptor|cache|handler|dispatcher\/(?:balanced|round|retry|h2c|proxy|socks5|env))/;
    onResolve({ filter: unused }, ({ path, importer }) =>
      importer.endsWith('/undici/index.js') ? { path, namespace: 'unused' } : undefined,
    );
    onLoad({ filter: /.*/, namespace: 'unused' }, ({ path }) => ({
      contents: `module.exports = new Proxy({}, { get: (_, name) => function () {
        // The index makes one of them.
        if (name !== 'CacheStorage') throw new Error('the bundle has no ' + name + ' of undici (${path}): see scripts/bundle.ts');
      } });`,
    }));
  },
};

type Inputs = Metafile['inputs'];

/** Returns the state of each source file, by which `currentBundle` of `bin/bundle.js` notices changes. */
function statesOf(inputs: Inputs): readonly (readonly [string, number, number])[] {
  const own = Object.keys(inputs).filter(
    path => !path.startsWith('node_modules/') && !/^(?:late|node|unused):/.test(path),
  );
  return [...own, 'package-lock.json'].map(path => {
    const { mtimeMs, size } = statSync(join(project, path));
    return [path, mtimeMs, size];
  });
}

/** Returns the licences of the packages that the bundle contains. */
function licensesOf(inputs: Inputs): string {
  const packages = new Set<string>();
  for (const path of Object.keys(inputs)) {
    const [folder] = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? [];
    if (folder !== undefined) packages.add(folder);
  }
  const texts = [...packages].sort().map(folder => {
    const { name, version, license } = JSON.parse(
      readFileSync(join(project, folder, 'package.json'), 'utf8'),
    );
    const files = globSync('{LICEN[CS]E,licen[cs]e,License,NOTICE}*', {
      cwd: join(project, folder),
    });
    const text = files.map(file => readFileSync(join(project, folder, file), 'utf8').trim());
    return [`${name} ${version} (${license})`, ...text].join('\n\n');
  });
  return `${texts.join(`\n\n${'-'.repeat(72)}\n\n`)}\n`;
}

interface Locked {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** Returns the folders of the installed packages that nothing needs beside the bundle, relative to the project. */
export function bundledPackages(): string[] {
  const { packages } = JSON.parse(readFileSync(join(project, 'package-lock.json'), 'utf8')) as {
    packages: Readonly<Record<string, Locked>>;
  };
  const needed = new Set<string>();
  const keep = (folder: string): void => {
    const found = packages[folder];
    if (!found || needed.has(folder)) return;
    needed.add(folder);
    const { dependencies, optionalDependencies } = found;
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      keep(`${folder}/node_modules/${name}`);
      keep(`node_modules/${name}`);
    }
  };
  const own = Object.keys(packages['']?.optionalDependencies ?? {});
  for (const name of [...unbundled, ...own]) keep(`node_modules/${name}`);
  return Object.keys(packages).filter(folder => folder !== '' && !needed.has(folder));
}
