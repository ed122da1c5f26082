import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Flat, flatten } from './flatten.ts';
import type { TarPart } from './tar-file.ts';

/** A change to a path: what a layer is made of. */
interface Step {
  readonly kind: 'file' | 'directory' | 'link' | 'whiteout' | 'opaque';
  readonly path: string;
  readonly target: string;
}

const paths = fc
  .array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 3 })
  .map(parts => parts.join('/'));
const steps: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom('file', 'file', 'directory', 'link', 'whiteout', 'opaque'),
  path: paths,
  target: paths,
});
const layers = fc.array(fc.array(steps, { maxLength: 8 }), { minLength: 1, maxLength: 5 });

/** The files of an image by the specification: the removals of a layer come first. */
class Model {
  #files = new Map<string, string>();

  get flat(): Flat {
    return Object.fromEntries(this.#files);
  }

  /** Applies a layer; returns it as a tar file has it, without links that lead nowhere. */
  apply(steps: readonly Step[], layer: number): TarPart[] {
    // Tools differ in the order of a layer's links and removals.
    const links = steps.every(({ kind }) => kind !== 'whiteout' && kind !== 'opaque');
    for (const { kind, path } of steps) {
      if (kind === 'whiteout') this.#remove(path, true);
      if (kind === 'opaque') this.#remove(path, false);
    }
    const parts: TarPart[] = [];
    for (const step of steps) {
      if (step.kind === 'link' && !(links && this.#canLink(step))) continue;
      this.#add(step, layer, parts.length);
      parts.push(partOf(step));
    }
    return parts;
  }

  #canLink({ path, target }: Step): boolean {
    return path !== target && this.#files.get(target)?.startsWith('file') === true;
  }

  #add({ kind, path, target }: Step, layer: number, entry: number): void {
    if (kind === 'whiteout' || kind === 'opaque') return;
    const linked = this.#files.get(target) ?? '';
    for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) {
      this.#makeDirectory(path.slice(0, at));
    }
    if (kind === 'directory') {
      this.#makeDirectory(path);
    } else {
      this.#remove(path, true);
      this.#files.set(path, kind === 'link' ? linked : `file 644 ${layer}:${entry}`);
    }
  }

  #makeDirectory(path: string): void {
    if (this.#files.get(path)?.startsWith('file')) this.#files.delete(path);
    this.#files.set(path, 'directory 755');
  }

  #remove(path: string, itself: boolean): void {
    for (const name of this.#files.keys()) {
      if (name.startsWith(`${path}/`) || (itself && name === path)) this.#files.delete(name);
    }
  }
}

function partOf({ kind, path, target }: Step): TarPart {
  if (kind === 'whiteout') return { name: path.replace(/[^/]*$/, '.wh.$&') };
  if (kind === 'opaque') return { name: `${path}/.wh..wh..opq` };
  return kind === 'link' ? { name: path, type: 'link', link: target } : { name: path, type: kind };
}

test('layers make the same files as in a simple model', () => {
  fc.assert(
    fc.property(layers, stack => {
      const model = new Model();
      const parts = stack.map((layer, index) => model.apply(layer, index));
      assert.deepEqual(flatten(parts), model.flat);
    }),
    { numRuns: 3000 },
  );
});
