import type { Declaration } from './declaration.ts';

type Routable = Pick<Declaration, 'method' | 'path' | 'aliases'>;

/** The route of a request, or the methods that its path has instead. */
export type Found<R> =
  | {
      readonly route: R;
      /** The texts in the path, decoded, by the names in braces. */
      readonly params: Readonly<Record<string, string>>;
    }
  | {
      readonly methods: readonly string[];
      /** One of the routes with the path. */
      readonly other: R;
    };

/** Returns undefined for a path that no route has. */
export type Router<R> = (method: string, path: string) => Found<R> | undefined;

/** Finds routes by method and path. `HEAD` counts as `GET`; a slash at the end makes no difference. */
export function createRouter<R extends Routable>(routes: readonly R[]): Router<R> {
  const candidates = routes.flatMap(route =>
    [route.path, ...(route.aliases ?? [])].map(path => ({ route, pattern: patternOf(path) })),
  );
  return (method, path) => {
    const wanted = method === 'HEAD' ? 'get' : method.toLowerCase();
    const methods: string[] = [];
    let other: R | undefined;
    for (const { route, pattern } of candidates) {
      const match = pattern.exec(path);
      if (match && route.method === wanted) return { route, params: decoded(match.groups ?? {}) };
      if (match) {
        other = route;
        methods.push(...(route.method === 'get' ? ['HEAD', 'GET'] : [route.method.toUpperCase()]));
      }
    }
    return other && { methods, other };
  };
}

/** The route as metrics count it: at most two parts of its path, up to the first one that varies. */
export function labelOf({ path }: Pick<Declaration, 'path'>): string {
  return path
    .replace(/\/\{.*$/, '')
    .split('/')
    .slice(0, 3)
    .join('/');
}

function patternOf(path: string): RegExp {
  const escaped = path.replace(/[.*+?^$()|[\]\\]/g, String.raw`\$&`);
  return new RegExp(`^${escaped.replace(/\{(\w+)\}/g, '(?<$1>[^/]+)')}/?$`, 'i');
}

function decoded(groups: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(groups).map(([name, text]) => [name, decode(text)]));
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Not every `%` begins a code: such a text names nothing, which its route reports.
    return text;
  }
}
