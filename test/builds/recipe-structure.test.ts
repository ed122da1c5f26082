import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import fc from 'fast-check';
import { parse } from 'yaml';
import type { CondaSource } from '../../src/builds/recipe/conda/conda-source.ts';
import {
  condaYaml,
  quoteEnv,
  quoteShell,
} from '../../src/builds/recipe/conda/install/conda-recipe.ts';
import { baseImagesOf } from '../../src/builds/recipe/dockerfile/base-images.ts';
import { jsonList, parseDockerfile } from '../../src/builds/recipe/dockerfile/instructions.ts';
import { expandWord } from '../../src/builds/recipe/dockerfile/words/shell-words.ts';
import type { Recipe } from '../../src/builds/recipe/recipe-kind.ts';
import { readBuildSource } from '../../src/builds/recipe/recipe-kinds.ts';
import type { SubmittedBuild } from '../../src/builds/recipe/submitted.ts';
import { Fault } from '../../src/foundation/fault.ts';
import { recipeOf } from './recipe-of.ts';

const nasty = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        "'",
        '"',
        '\\',
        '`',
        '$(id)',
        '$A',
        '<<EOF',
        '\n',
        '\r',
        '#',
        ';',
        '&&',
        '|',
        ' ',
        '[',
        ']',
        '--',
        'RUN ',
        'FROM x',
        '\u2028',
        '\t',
      ),
      fc.string({ unit: 'grapheme', maxLength: 3 }),
    ),
    { maxLength: 8 },
  )
  .map(parts => parts.join(''));

const url = 'https://x.example.com/linux-64/a-1-0.conda';
const request = (more: object, wanted: object = { entries: ['bwa'] }): SubmittedBuild => ({
  packages: { type: 'CONDA', ...wanted, ...more },
});
const variables = (value: string) => ({
  environment: Buffer.from(
    JSON.stringify({ dependencies: ['bwa'], variables: { A: value } }),
  ).toString('base64'),
});

/** The recipe, or undefined when the request is refused. */
function recipeFor(submitted: SubmittedBuild): Recipe | undefined {
  try {
    return recipeOf(readBuildSource(submitted));
  } catch (error) {
    if (error instanceof Fault) return undefined;
    throw error;
  }
}

const shapeOf = ({ dockerfile }: Recipe) =>
  parseDockerfile(dockerfile)
    .instructions.map(({ name }) => name)
    .join(' ');

test('any text gives a recipe with the same instructions', () => {
  const lock = { entries: [`@EXPLICIT\n${url}`] };
  const places: [plain: SubmittedBuild, place: (text: string) => SubmittedBuild][] = [
    [request({}), text => request({}, { entries: [text] })],
    [request({}), text => request({ channels: [text] })],
    [request({}, lock), text => request({ channels: [text] }, lock)],
    [request({}, lock), text => request({ condaOpts: { basePackages: text } }, lock)],
    [request({}), text => request({ condaOpts: { mambaImage: text } })],
    [request({}), text => request({ condaOpts: { baseImage: text } })],
    [request({}, variables('x')), text => request({}, variables(text))],
    [request({}, { entries: ['pip:a'] }), text => request({}, { entries: [`pip:${text}`] })],
    [
      request({}, { entries: ['https://x/y'] }),
      text => request({}, { entries: [`https://x/${text}`] }),
    ],
  ];
  for (const [plain, place] of places) {
    const shape = shapeOf(recipeFor(plain) as Recipe);
    fc.assert(
      fc.property(nasty, text => {
        const recipe = recipeFor(place(text));
        if (!recipe || text.trim() === '' || /cuda|-gpu/.test(text)) return;
        assert.equal(shapeOf(recipe), shape, recipe.dockerfile);
      }),
      { numRuns: 300 },
    );
  }
});

test('a command is one instruction, and reaches the shell unchanged', () => {
  const before = parseDockerfile((recipeFor(request({})) as Recipe).dockerfile).instructions.length;
  fc.assert(
    fc.property(nasty, text => {
      const recipe = recipeFor(request({ condaOpts: { commands: [text, 'true'] } }));
      if (!recipe) return;
      const { instructions } = parseDockerfile(recipe.dockerfile);
      assert.equal(instructions.length, before + 2);
      assert.deepEqual(instructions.at(-1), { ...instructions.at(-1), name: 'RUN', rest: 'true' });
      const command = instructions.at(-2);
      if (command?.name !== 'RUN') return;
      const words = jsonList(command.rest, 1);
      assert.equal(
        words?.[2] ?? command.rest,
        text
          .trim()
          .replace(/^RUN\s+/, '')
          .trim(),
      );
    }),
    { numRuns: 2000 },
  );
});

test('quoted words come out of the shell unchanged', () => {
  const words = fc.sample(
    nasty.filter(text => !text.includes('\0') && text.isWellFormed()),
    300,
  );
  const script = `printf '%s\\0' ${words.map(quoteShell).join(' ')}`;
  const printed = String(execFileSync('/bin/sh', ['-c', script], { encoding: 'utf8' }));
  assert.deepEqual(printed.split('\0').slice(0, -1), words);
});

test('values for ENV come out of the Dockerfile unchanged', () => {
  fc.assert(
    fc.property(nasty, value => {
      const read = expandWord(quoteEnv(value), {
        escapeMark: '\\',
        variables: new Map([['A', 'x']]),
      });
      assert.equal(read, value);
    }),
    { numRuns: 1000 },
  );
});

test('the environment file contains the requested packages', () => {
  const lists = fc.array(
    nasty.filter(text => text.isWellFormed()),
    { maxLength: 4 },
  );
  fc.assert(
    fc.property(lists, lists, lists, (channels, packages, pip) => {
      const file = parse(condaYaml(channels, packages, pip));
      const list = file.dependencies ?? [];
      assert.deepEqual(file.channels ?? [], channels);
      assert.deepEqual(list.slice(0, packages.length), packages);
      const rest = list.slice(packages.length);
      if (pip.length > 0) assert.deepEqual(rest.at(-1), { pip });
      assert.equal(rest.length, pip.length === 0 ? 0 : 2);
    }),
  );
});

test('pip is requested once', () => {
  const count = (entries: string[]) =>
    recipeFor(request({}, { entries }))
      ?.files.get('conda.yml')
      ?.match(/"(?:.*::)?pip[="]/g)?.length;
  assert.equal(count(['pip:a']), 1);
  assert.equal(count(['pip:a', 'pip']), 1);
  assert.equal(count(['pip:a', 'pip=24']), 1);
  assert.equal(count(['pip:a', 'conda-forge::pip']), 1);
  assert.equal(count(['bwa']), undefined);
});

test('the order of channels, pip requirements and commands changes a recipe, the order of packages does not', () => {
  const recipe = (packages: object) => recipeOf(readBuildSource(request({}, packages)));
  assert.deepEqual(recipe({ entries: ['b', 'a', 'b'] }), recipe({ entries: ['a', 'b'] }));
  const differ = (one: object, other: object) => assert.notDeepEqual(recipe(one), recipe(other));
  differ({ entries: ['pip:b', 'pip:a'] }, { entries: ['pip:a', 'pip:b'] });
  differ({ entries: ['a'], channels: ['x', 'y'] }, { entries: ['a'], channels: ['y', 'x'] });
  const commands = (...list: string[]) => ({ entries: ['a'], condaOpts: { commands: list } });
  differ(commands('b', 'a'), commands('a', 'b'));
});

test('the package manager is not in the final image, unless it is the base image', () => {
  const { dockerfile, lockStage } = recipeFor(request({})) as Recipe;
  assert.equal(lockStage, 'lock');
  const final = dockerfile.slice(dockerfile.indexOf('AS final'));
  assert.doesNotMatch(final, /micromamba/);
  assert.match(final, /^COPY --from=build \/opt\/conda \/opt\/conda$/m);
  assert.match(final, /^ENV CONDA_PREFIX=\/opt\/conda PATH=\/opt\/conda\/bin:\$PATH$/m);
});

test('a Dockerfile has no files, no lock stage, and its own images', () => {
  const containerFile = Buffer.from('FROM a/b\n').toString('base64');
  const recipe = recipeFor({ containerFile }) as Recipe;
  assert.deepEqual(recipe, { maker: 'buildkit', dockerfile: 'FROM a/b\n', files: new Map() });
  assert.deepEqual(baseImagesOf(recipe.dockerfile), [
    { reference: 'docker.io/a/b:latest', line: 1, use: 'FROM' },
  ]);
});

test('base packages that a lock file contains are not installed again', () => {
  const runs = (lock: string, basePackages?: string) =>
    (
      recipeFor(
        request({ condaOpts: { basePackages } }, { entries: [`@EXPLICIT\n${lock}`] }),
      ) as Recipe
    ).dockerfile.match(/--freeze-installed.*$/gm) ?? [];
  assert.deepEqual(runs(url), [
    '--freeze-installed --channel conda-forge --channel bioconda conda-forge::procps-ng',
  ]);
  const procps = 'https://x.example.com/linux-64/procps-ng-4.0.4-h6d6ddd4_0.conda#';
  assert.deepEqual(runs(`${procps}${'0'.repeat(32)}`), []);
  assert.deepEqual(runs(url, 'a'), []);
  assert.deepEqual(runs(url, 'b>=2'), [
    "--freeze-installed --channel conda-forge --channel bioconda 'b>=2'",
  ]);
});

test('a source keeps its channels, and the recipe does not parse it differently', () => {
  const source = readBuildSource(request({ channels: ['b', 'a'] })) as CondaSource;
  const before = structuredClone(source);
  recipeOf(source);
  assert.deepEqual(source, before);
});
