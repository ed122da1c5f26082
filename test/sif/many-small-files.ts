import { type TarPart, tarOf } from './tar-file.ts';

export const fileCount = 200_000;

/** A model of the packages in a Node image: their number and sizes. */
export function* manySmallFiles(): Generator<Buffer> {
  let state = 1;
  const next = (limit: number) => {
    state = (state * 48_271) % 0x7fffffff;
    return state % limit;
  };
  for (let first = 0; first < fileCount; first += 1000) {
    const parts = Array.from({ length: 1000 }, (_, at): TarPart => {
      const index = first + at;
      const name = `app/node_modules/package-${index >> 5}/lib/module-number-${index % 32}.js`;
      const words = Array.from({ length: 5 + next(100) }, () => next(1e6).toString(36));
      return { name, content: `// ${index}\n${words.join(' ')}\n`, mtime: 1_700_000_000 };
    });
    yield tarOf(parts, { end: first + 1000 === fileCount });
  }
}
