import { Router as KoaRouter } from '@koa/router';
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
  const router = new KoaRouter();
  const routeOf = new Map<object, R>();
  for (const route of routes) {
    for (const path of [route.path, ...(route.aliases ?? [])]) {
      const layer = router.register(path.replace(/\{(\w+)\}/g, ':$1'), [route.method], () => {});
      routeOf.set(layer, route);
    }
  }
  return (method, path) => {
    const { path: samePath, pathAndMethod } = router.match(path, method);
    const [layer] = pathAndMethod;
    const route = layer && routeOf.get(layer);
    if (route) return { route, params: layer.params(path, layer.captures(path)) };
    const other = samePath[0] && routeOf.get(samePath[0]);
    return other && { methods: samePath.flatMap(({ methods }) => methods), other };
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
