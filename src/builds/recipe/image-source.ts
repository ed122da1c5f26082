import type { SourceKind } from './recipe-kind.ts';
import { text } from './text/canonical-document.ts';

/** An existing image: a build only changes and copies it. */
export interface ImageSource {
  readonly kind: 'image';
  readonly digest: string;
}

export const imageKind: SourceKind<ImageSource> = {
  kind: 'image',
  keyFields: ({ digest }) => [text('image', digest)],
  tools: () => [],
};
