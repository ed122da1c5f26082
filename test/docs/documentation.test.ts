/**
 * What the documents name exists: files and headings of links, commands with their options, scripts, settings with their
 * defaults, names in the sources, messages.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { type Command, type CommandNode, isGroup } from '../../src/cli/command/command.ts';
import { loadAll, parseCommand } from '../../src/cli/command/run-command-line.ts';
import { commands } from '../../src/cli/commands.ts';
import { loadConfig } from '../../src/server/config/load.ts';
import { makeTempDir } from '../world/temp-dir.ts';

const project = join(import.meta.dirname, '../..');
const places = [
  '*.md',
  'docs/**/*.md',
  'deploy/**/*.md',
  'src/**/*.md',
  'bench/*.md',
  'scripts/**/*.md',
];
const pages = globSync(places, { cwd: project }).map(path => ({ path, text: readPage(path) }));

function readPage(path: string): string {
  return readFileSync(join(project, path), 'utf8');
}

interface Block {
  readonly path: string;
  readonly language: string;
  readonly text: string;
}

const blocks: readonly Block[] = pages.flatMap(({ path, text }) =>
  [...text.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, language = '', body = '']) => ({
    ...{ path, language, text: body },
  })),
);

/** Returns the anchors of the headings of a page, by the rules of GitHub. */
function anchorsOf(markdown: string): Set<string> {
  const headings = [...markdown.replaceAll(/^```.*?^```$/gms, '').matchAll(/^#+ (.+)$/gm)];
  const found = new Set<string>();
  for (const [, heading = ''] of headings) {
    const plain = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const anchor = plain.replaceAll(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-');
    let name = anchor;
    for (let count = 1; found.has(name); count += 1) name = `${anchor}-${count}`;
    found.add(name);
  }
  return found;
}

const existing = new Set(
  globSync('**/*', {
    cwd: project,
    exclude: name => /^(?:node_modules|\.git|\.bundle)$/.test(name),
  }),
);

test('links between pages lead to files and headings that exist', () => {
  const broken: string[] = [];
  let links = 0;
  for (const { path, text } of pages) {
    const prose = text.replaceAll(/^```.*?^```$/gms, '').replaceAll(/`[^`\n]*`/g, '');
    for (const [, target = ''] of prose.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      links += 1;
      const [file = '', anchor] = target.split('#');
      const at = file === '' ? path : relative(project, resolve(project, dirname(path), file));
      const isThere = existing.has(at.replace(/\/$/, ''));
      const leads =
        anchor === undefined || (at.endsWith('.md') && anchorsOf(readPage(at)).has(anchor));
      if (!isThere || !leads) broken.push(`${path}: ${target}`);
    }
  }
  assert.ok(links > 200, `${links} links were found`);
  assert.deepEqual(broken, []);
});

/** Returns the words of each call of `sluice` in shell lines. A word in which the shell replaces something stays. */
function callsIn(script: string): string[][] {
  const lines = script.replaceAll(/\\\n\s*/g, ' ').split('\n');
  const called = /(?:^|[;&|(])\s*(?:\w+=\S+\s+)*(?:npx )?sluice (?=[a-z-])/g;
  return lines.flatMap(line =>
    [...line.replace(/(?:^|\s)#.*/, '').matchAll(called)].map(({ 0: { length }, index }) =>
      wordsOf(line.slice(index + length)),
    ),
  );
}

/** Returns the words up to the end of the command. */
function wordsOf(text: string): string[] {
  const words: string[] = [];
  let rest = text;
  for (;;) {
    rest = rest.trimStart();
    const [word = ''] =
      /^(?:'[^']*'|"(?:\$\([^)]*\)|[^"])*"|<\w+>|[^\s'"()<>;|&#]+)+/.exec(rest) ?? [];
    if (word === '') return words;
    words.push(word.replaceAll(/^'|'$/g, '').replaceAll(/^"|"$/g, ''));
    rest = rest.slice(word.length);
  }
}

const nodes = await loadAll(commands);

/** Returns the command that words call, and the words after its name. Throws for an unknown one. */
function commandOf(words: readonly string[]): { command: Command; rest: readonly string[] } {
  const [name = '', ...rest] = words;
  const node: CommandNode | undefined = nodes[name];
  assert.ok(node, `sluice ${name} does not exist`);
  if (!isGroup(node)) return { command: node, rest };
  const [action = '', ...others] = rest;
  const command = node.actions[action];
  assert.ok(command, `sluice ${name} ${action} does not exist`);
  return { command, rest: others };
}

test('commands in shell blocks are understood as they are written', () => {
  const calls = blocks
    .filter(({ path, language }) => language === 'sh' && path !== 'docs/command-line.md')
    .flatMap(({ path, text }) => callsIn(text).map(words => ({ path, words })));
  assert.ok(calls.length > 30, `${calls.length} calls were found`);
  for (const { path, words } of calls) {
    if (words[0]?.startsWith('-')) continue;
    const { command, rest } = commandOf(words);
    assert.doesNotThrow(() => parseCommand(command, rest), `${path}: sluice ${words.join(' ')}`);
  }
});

test('commands in sentences exist, with their options', () => {
  const inline = pages
    .filter(({ path }) => path !== 'docs/command-line.md')
    .flatMap(({ path, text }) =>
      [...text.matchAll(/`(?:npx )?sluice ([a-z][^`]*)`/g)].map(([, call = '']) => ({
        path,
        call,
      })),
    );
  assert.ok(inline.length > 30, `${inline.length} calls were found`);
  const wrong = inline.flatMap(({ path, call }) => {
    const words = call.split(/\s+/);
    const node = nodes[words[0] ?? ''];
    if (!node) return words[0] === 'help' ? [] : [`${path}: sluice ${call}`];
    // A group may be named alone: `sluice user`.
    const action = isGroup(node) ? node.actions[words[1] ?? ''] : node;
    if (!action)
      return words[1] === undefined || /\W/.test(words[1]) ? [] : [`${path}: sluice ${call}`];
    const unknown = [...call.matchAll(/(?<=\s)--([a-z-]+)/g)].filter(
      ([, option = '']) => option !== 'help' && !Object.hasOwn(action.options, option),
    );
    return unknown.length === 0 ? [] : [`${path}: sluice ${call}`];
  });
  assert.deepEqual(wrong, []);
});

test('scripts of npm that the pages name exist', () => {
  const { scripts } = JSON.parse(readPage('package.json')) as { scripts: Record<string, string> };
  const wrong = pages
    .filter(({ path }) => path !== 'CHANGELOG.md')
    .flatMap(({ path, text }) =>
      [...text.matchAll(/\bnpm run ([a-z:-]+)/g)]
        .filter(([, name = '']) => !Object.hasOwn(scripts, name))
        .map(([call]) => `${path}: ${call}`),
    );
  assert.deepEqual(wrong, []);
});

test('configuration files in the pages are accepted', async () => {
  await using directory = await makeTempDir('documented');
  const files = blocks.filter(
    ({ language, text }) => language === 'yaml' && text.startsWith('# sluice.yaml'),
  );
  assert.ok(files.length >= 2, `${files.length} files were found`);
  for (const { path, text } of files) {
    const file = directory.join('sluice.yaml');
    writeFileSync(file, text);
    assert.doesNotThrow(() => loadConfig({ SLUICE_CONFIG: file }), `${path}:\n${text}`);
  }
});

/** Returns the cells of the rows of all tables in a page. */
function rowsOf(markdown: string): string[][] {
  return [...markdown.matchAll(/^\|(.+)\|$/gm)].map(([, row = '']) =>
    row.split(/(?<!\\)\|/).map(cell => cell.trim()),
  );
}

test('the limits in docs/limits.md are the defaults of the settings', () => {
  const defaults = new Map(
    rowsOf(readPage('docs/configuration.md')).map(([setting = '', , value]) => [setting, value]),
  );
  const limits = rowsOf(readPage('docs/limits.md')).filter(cells => cells[2]?.startsWith('`'));
  assert.ok(limits.length > 20);
  for (const [what, value, setting = ''] of limits)
    assert.equal(value, defaults.get(setting), what);
});

test('the messages in docs/troubleshooting.md are those of the sources', () => {
  const sources = globSync('src/**/*.ts', { cwd: project })
    .map(readPage)
    .join('\n')
    .replaceAll(/\$\{[^}]*\}/g, '...');
  const rows = rowsOf(readPage('docs/troubleshooting.md')).filter(([cell = '']) =>
    cell.startsWith('`'),
  );
  assert.ok(rows.length > 20);
  for (const [cell = ''] of rows) {
    if (/of Docker|of npx|is missing|\/readyz/.test(cell)) continue;
    for (const [, message = ''] of cell.matchAll(/`([^`]+)`/g)) {
      for (const part of message.split('...')) assert.ok(sources.includes(part.trim()), message);
    }
  }
});

/**
 * Returns the texts between backticks in sentences and tables, each with its page. The changes name what existed once, and
 * the part about the state of a server names files of the data directory.
 */
const spans = pages
  .filter(({ path }) => path !== 'CHANGELOG.md')
  .flatMap(({ path, text }) => {
    const prose = text.replaceAll(/^```.*?^```$/gms, '').replace(/^## State\n.*/ms, '');
    return [...prose.matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => ({ path, span }));
  });

/** Returns true for a file or folder that a page names from the root, from a room, from itself, or by its last parts. */
function isInProject(page: string, name: string): boolean {
  const path = name.replace(/\/$/, '');
  const beside = join(dirname(page), path);
  if ([path, beside, `src/${path}`, `src/${path}.ts`].some(one => existing.has(one))) return true;
  return [...existing].some(file => file.endsWith(`/${path}`));
}

test('files and folders of the project that the pages name exist', () => {
  const roots = new Set([...existing].map(path => path.replace(/^src\//, '').split('/', 1)[0]));
  const named = spans.filter(({ span }) => {
    if (!/^[\w./-]+$/.test(span)) return false;
    const isOfProject = span.includes('/') && roots.has(span.split('/', 1)[0]);
    return isOfProject || /\w\.(?:ts|js|sh)$/.test(span);
  });
  assert.ok(named.length > 300, `${named.length} names were found`);
  const diagrams = blocks.filter(({ path }) => path === 'docs/architecture.md');
  const drawn = diagrams.flatMap(({ text }) => [
    ...text.matchAll(/^ {2,}([a-z]+(?:\/[a-z-]+)+\/?) /gm),
  ]);
  assert.ok(drawn.length > 30, `${drawn.length} parts were found`);
  const parts = drawn.map(([, span = '']) => ({ path: 'docs/architecture.md', span }));
  const missing = [...named, ...parts].filter(({ path, span }) => !isInProject(path, span));
  assert.deepEqual(missing, []);
});

const settings = new Map(
  rowsOf(readPage('docs/configuration.md'))
    .filter(([setting, variable]) => /^`\w/.test(setting ?? '') && /^`SLUICE_/.test(variable ?? ''))
    .flatMap(([setting = '', variable = '', value = '']) =>
      [setting, variable].map(name => [name.slice(1, -1), value.slice(1, -1)] as const),
    ),
);

test('settings, variables and values of the chart that the pages name exist', () => {
  const names = [...settings.keys()];
  const groups = new Set(names.map(name => name.split('.', 1)[0]));
  const chart: unknown = parse(readPage('deploy/helm/values.yaml'));
  const others = globSync(
    [
      'src/**/*.ts',
      'test/world/*.ts',
      '**/{compose,service}.yaml',
      'deploy/compose/.env.example',
      'builder/*.sh',
    ],
    { cwd: project, exclude: ['node_modules/**'] },
  ).map(readPage);
  const isKnown = (name: string): boolean => {
    const start = name.replace(/\*$/, '');
    if (settings.has(name) || names.some(known => known.startsWith(start.replace(/\.?$/, '.'))))
      return true;
    if (name.startsWith('SLUICE_')) return others.some(text => text.includes(name));
    const [group = '', ...members] = name.split('.');
    // In the configuration file only, with tables of their own.
    if (group === 'registries' || group === 'channels' || group === 'accountFiles') return true;
    if (name.startsWith('messages.webhooks')) return true;
    let value: unknown = (chart as Record<string, unknown>)[group];
    for (const member of members) {
      // Some values, such as resources, are handed on to Kubernetes as they are.
      if (value === null || typeof value !== 'object') return false;
      value = (value as Record<string, unknown>)[member];
    }
    return value !== undefined;
  };
  const named = spans.flatMap(({ path, span }) => {
    const [, name = ''] =
      /^(SLUICE_[A-Z0-9_]+|[a-z]\w*(?:\.\w+)+(?:\.\*)?)(?:$|: |=)/.exec(span) ?? [];
    const isFile = /\.(?:[jt]s|jsonl?|ya?ml|toml|tar|crt|dump|py|html|moved|key|previous)$/.test(
      name,
    );
    const isSetting = name.startsWith('SLUICE_') || (groups.has(name.split('.', 1)[0]) && !isFile);
    return isSetting ? [{ path, name }] : [];
  });
  assert.ok(named.length > 200, `${named.length} names were found`);
  assert.deepEqual(
    named.filter(({ name }) => !isKnown(name)),
    [],
  );
});

const units = new Map([
  ...Object.entries({ ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 }),
  ...Object.entries({ KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 }),
]);

/** Returns a time in seconds, or a size in bytes, as a page or a setting says it: `36 hours`, `36h`, `a day`. */
function amountOf(text = ''): number {
  const [, count = '', unit = ''] = /^(an?|[\d.]+)\s?(ms|[KMG]iB|[smhd])/.exec(text) ?? [];
  return (units.get(unit) ?? Number.NaN) * (count.startsWith('a') ? 1 : Number(count));
}

test('defaults that stand beside a setting are those of the setting', () => {
  const amount = String.raw`(?<said>(?:an?|[\d.]+)\s(?:s|ms|seconds?|minutes?|hours?|days?|[KMG]iB)\b)`;
  const name = String.raw`\`(?<name>[A-Z0-9_]+|[a-z]\w*(?:\.\w+)*)\``;
  const forms = [`${amount} \\(${name}\\)`, `${name} \\(${amount}`, `${name}, ${amount}`];
  const found = pages
    .filter(({ path }) => path !== 'CHANGELOG.md')
    .flatMap(({ path, text }) =>
      forms
        .flatMap(form => [...text.matchAll(new RegExp(form, 'g'))])
        .map(({ groups: { name = '', said = '' } = {} }) => ({ path, name, said })),
    )
    .filter(({ name }) => settings.has(name));
  assert.ok(found.length > 5, `${found.length} defaults were found`);
  const wrong = found.filter(({ name, said }) => amountOf(said) !== amountOf(settings.get(name)));
  assert.deepEqual(wrong, []);
});

test('routes of the API that the pages name exist', () => {
  const { paths } = JSON.parse(readPage('docs/openapi.json')) as { paths: object };
  const routes = Object.keys(paths).map(path => path.split('/'));
  const exists = (path: string): boolean => {
    const parts = path.split('/');
    const fits = (part: string, named = '') => part === named || named.startsWith('{');
    return routes.some(route => parts.every((part, at) => part === '...' || fits(part, route[at])));
  };
  // That page also names what only Wave has, and the changes what existed once.
  const named = pages
    .filter(({ path }) => path !== 'docs/coming-from-wave.md' && path !== 'CHANGELOG.md')
    .flatMap(({ path, text }) =>
      [...text.matchAll(/\/v1alpha\d(?:\/[\w{}<>$.-]*\w[}>]?|\/\.\.\.)*/g)].map(([route]) => ({
        path,
        route,
      })),
    );
  assert.ok(named.length > 20, `${named.length} routes were found`);
  assert.deepEqual(
    named.filter(({ route }) => !exists(route)),
    [],
  );
});

test('decisions are named by their numbers', () => {
  const titles = new Map(
    globSync('docs/adr/0*.md', { cwd: project }).map(path => [
      Number(/(\d+)-/.exec(path)?.[1]),
      /^# (\d+)\. /.exec(readPage(path))?.[1],
    ]),
  );
  for (const [number, title] of titles) assert.equal(title, String(number));
  const wrong = pages
    .filter(({ path }) => path !== 'CHANGELOG.md')
    .flatMap(({ path, text }) =>
      [...text.matchAll(/\bADR (\d+)(?:\]\([^)]*?0*(\d+)-[^)]*\))?/g)]
        .filter(([, said, linked = said]) => said !== linked || !titles.has(Number(said)))
        .map(([link]) => `${path}: ${link}`),
    );
  assert.deepEqual(wrong, []);
});

test('names in the decisions are those of the code', () => {
  const files = [
    '{src,test,scripts,bench}/**/*.{ts,js}',
    'bin/*.js',
    'src/**/*.{c,py}',
    'deploy/**/*.yaml',
    'proto/**/*.proto',
  ];
  const words = new Set<string>();
  for (const path of globSync([...files, 'docs/openapi.json'], { cwd: project })) {
    for (const [word] of readPage(path).matchAll(/[A-Za-z]\w*/g)) words.add(word);
  }
  const named = spans.filter(
    ({ path, span }) =>
      /^docs\/(?:adr|architecture)/.test(path) &&
      /^\w+(?:\.\w+)*(?:\([^)]*\))?$/.test(span) &&
      /[a-z][A-Z]/.test(span),
  );
  assert.ok(named.length > 60, `${named.length} names were found`);
  const unknown = named.filter(({ span }) =>
    span
      .replace(/\(.*/, '')
      .split('.')
      .some(word => !words.has(word)),
  );
  assert.deepEqual(unknown, []);
});
