import type { UnpackedArchive } from '../../archives/unpacked-archive.ts';

const scripts = ['pre', 'post'].map(when => `${when}-link.sh`);

/** Returns the paths of the scripts that package managers run when they link a package. */
function ownScripts(name: string): string[] {
  return scripts.map(script => `bin/.${name}-${script}`);
}

/**
 * Finds the scripts that package managers run when they link the package, before or after. A script for unlinking is not
 * one of them.
 */
export class LinkScripts {
  readonly #own: readonly string[];
  readonly #installed = new Set<string>();

  constructor(name: string) {
    this.#own = ownScripts(name);
  }

  /** Takes a path that is installed. */
  see(path: string): void {
    if (this.#own.includes(path)) this.#installed.add(path);
  }

  /** Returns their paths. */
  found({ entries }: UnpackedArchive): string[] {
    return [
      ...this.#own.filter(path => this.#installed.has(path)),
      // Old packages have some there.
      ...scripts.map(script => `info/${script}`).filter(path => entries.has(path)),
    ];
  }
}
