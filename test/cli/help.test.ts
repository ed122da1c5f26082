import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CommandNode, isGroup, type Option } from '../../src/cli/command/command.ts';
import { helpOf, loadAll, overviewOf } from '../../src/cli/command/run-command-line.ts';
import { commands as declared } from '../../src/cli/commands.ts';
import { sluiceCommand } from '../world/sluice-command.ts';

const columns = 80;
const commands = await loadAll(declared);

/** All commands and actions by how they are called. */
function* nodesIn(
  nodes: Readonly<Record<string, CommandNode>>,
  above = '',
): Iterable<[string, CommandNode]> {
  for (const [name, node] of Object.entries(nodes)) {
    const path = `${above}${name}`;
    yield [path, node];
    if (isGroup(node)) yield* nodesIn(node.actions, `${path} `);
  }
}

const all = [...nodesIn(commands)];

test('every help fits 80 columns and says what each option does', () => {
  for (const [name, node] of all) {
    const help = helpOf(name, node);
    const wide = help.split('\n').filter(line => line.length > columns);
    assert.deepEqual(wide, [], name);
    assert.match(help, new RegExp(`^Usage: sluice ${name}`, 'm'));
    if (isGroup(node)) continue;
    for (const [option, { description }] of Object.entries(node.options)) {
      assert.match(description, /^[A-Z]/, `${name} --${option}`);
      assert.doesNotMatch(description, /\.$/, `${name} --${option}`);
    }
  }
  const overview = overviewOf(commands);
  for (const name of Object.keys(commands)) {
    assert.equal(overview.match(new RegExp(`^ {2}${name} `, 'gm'))?.length, 1, name);
  }
  assert.deepEqual(
    overview.split('\n').filter(line => line.length > columns),
    [],
  );
});

test('every command prints its result as JSON on request', () => {
  // The server writes a log, a completion script is text for a shell, and a bill of materials is JSON.
  const exceptions = ['serve', 'sbom', 'completion bash', 'completion zsh', 'completion fish'];
  const without = all
    .filter(([, node]) => !isGroup(node) && node.options.json === undefined)
    .map(([name]) => name);
  assert.deepEqual(
    without.filter(name => !exceptions.includes(name)),
    [],
  );
});

test('one name means one thing in all commands', () => {
  const meanings: Readonly<Record<string, string>> = {
    server: 'URL',
    config: 'FILE',
    data: 'DIRECTORY',
    workspace: 'NAME|NUMBER',
    user: 'EMAIL',
  };
  for (const [name, node] of all) {
    if (isGroup(node)) continue;
    for (const [option, value] of Object.entries(meanings)) {
      const declared: Option | undefined = node.options[option];
      if (declared) assert.equal(declared.value, value, `${name} --${option}`);
    }
    assert.equal(node.options.url, undefined, name);
  }
});

test('the program prints help in every way to request it, and its version', async () => {
  const done = async (...args: string[]) => {
    const { code, stdout, stderr } = await sluiceCommand(args);
    assert.deepEqual([code, stderr], [0, ''], args.join(' '));
    return stdout;
  };
  const overview = `${overviewOf(commands)}\n`;
  for (const args of [[], ['help'], ['--help'], ['-h']]) {
    assert.equal(await done(...args), overview);
  }
  const { build, user } = commands;
  assert.ok(build && user);
  const help = `${helpOf('build', build)}\n`;
  for (const args of [
    ['build', '--help'],
    ['build', '-h'],
    ['help', 'build'],
  ]) {
    assert.equal(await done(...args), help);
  }
  assert.equal(await done('user', '--help'), `${helpOf('user', user)}\n`);
  assert.match(await done('help', 'user', 'add'), /^Usage: sluice user add EMAIL \[options\]$/m);
  assert.match(await done('--version'), /^\d+\.\d+\.\d+\n$/);
});

test('a user of a server elsewhere learns how to reach it and to log in', async () => {
  assert.match(overviewOf(commands), /^ {2}SLUICE_SERVER .*\n(?: {3}.*\n)? {2}SLUICE_TOKEN /m);
  const { code, stderr } = await sluiceCommand(['login']);
  assert.equal(code, 2);
  assert.match(stderr, /There is no login: set SLUICE_SERVER .* SLUICE_TOKEN/);
});
