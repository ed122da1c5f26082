import { baseLayer, noteLayer } from './base.ts';
import { created, type Family, imageOf, without } from './image.ts';

const layers = async () => [await baseLayer(), await noteLayer('second')];

function withHistory(history: readonly object[]) {
  return async () => imageOf({ layers: await layers(), config: usual => ({ ...usual, history }) });
}

/** Histories that agree with the layers, disagree, or are not there. */
export const hist: Family = {
  none: async () => imageOf({ layers: await layers(), config: without('history') }),
  emptylayers: withHistory([
    { created, created_by: 'COPY base /' },
    { created, created_by: 'ENV A=1', empty_layer: true },
    { created, created_by: 'COPY second /' },
    { created, created_by: 'CMD ["/bin/sh"]', comment: 'buildkit', empty_layer: true },
  ]),
  /** Fewer entries than layers. */
  mismatch: withHistory([{ created, created_by: 'COPY base /' }]),
  nocreated: async () =>
    imageOf({
      layers: await layers(),
      config: usual => ({
        ...without('created')(usual),
        history: [{ created_by: 'COPY base /' }, { created_by: 'COPY second /' }],
      }),
    }),
};
