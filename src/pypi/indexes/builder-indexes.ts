import { defaultIndex, type IndexSettings, settingsAbove, withFiles } from './index-access.ts';

/**
 * Where pip in a builder finds the packages of the configured indexes. It gets no credentials, and a name alone would be looked up at
 * the public index.
 */
export interface BuilderIndexes {
  /** Base URL of the index for names; undefined where the configuration leaves it as it is. */
  readonly url: string | undefined;
  /** Returns whether the configuration has credentials for an address, or for the index of names without one. */
  isClosed(address?: string): boolean;
  /** Returns the address that the configuration has for a file. */
  reached(address: string): string;
}

/** Returns what a builder reaches of the configured indexes. */
export function createBuilderIndexes(indexes: readonly IndexSettings[]): BuilderIndexes {
  const all = withFiles(indexes);
  const names = `${defaultIndex}/`;
  const reached = (address: string) => {
    const found = settingsAbove(all, address);
    return found === undefined ? address : `${found.settings.url}${found.rest}`;
  };
  const moved = reached(names);
  return {
    url: moved === names ? undefined : moved,
    isClosed: (address = names) => settingsAbove(all, address)?.settings.credentials !== undefined,
    reached,
  };
}
