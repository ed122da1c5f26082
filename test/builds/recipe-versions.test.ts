import assert from 'node:assert/strict';
import { registerHooks } from 'node:module';
import { test } from 'node:test';

const folder = new URL('../../src/builds/solve/', import.meta.url);

/** Returns a constant of a module, and what it is if a text of the module is another one. */
async function changed(path: string, constant: string, from: string, to: string) {
  const url = new URL(path, folder).href;
  const hooks = registerHooks({
    load(loaded, context, next) {
      const module = next(loaded, context);
      if (!loaded.startsWith(`${url}?`)) return module;
      const source = String(module.source);
      assert.ok(source.includes(from), from);
      return { ...module, source: source.replace(from, to) };
    },
  });
  try {
    const query = encodeURIComponent(from);
    return [(await import(url))[constant], (await import(`${url}?${query}`))[constant]];
  } finally {
    hooks.deregister();
  }
}

test('a change of any line of a recipe changes its version', async () => {
  const wheel = ['wheels/wheel-recipe.ts', 'wheelRecipeVersion'] as const;
  const scripts = ['scripts/script-recipe.ts', 'scriptRecipeVersion'] as const;
  for (const [path, constant, from, to] of [
    [...wheel, 'ADD --keep-git-dir=true', 'ADD'],
    [...wheel, 'folder}/\\n', 'folder}\\n'],
    [...wheel, "commit.id, 'source'", "commit.id, 'other'"],
    [...wheel, ', `source/', ', `other/'],
    [...wheel, '[`source/', '[`other/'],
    [...wheel, '?submodules=false', '?submodules=true'],
    [...wheel, 'COPY . in/', 'COPY . on/'],
    [...scripts, "'--network=none ' : ''", "'--network=none ' : '--security=sandbox '"],
    [...scripts, "'--network=none ' : ''", "'' : ''"],
  ] as const) {
    const [version, other] = await changed(path, constant, from, to);
    assert.match(version, /^[0-9a-f]{64}$/);
    assert.notEqual(version, other, from);
  }
});
