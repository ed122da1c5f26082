/**
 * A step of the schema: the functions for JSON that SQLite has. They take the path of a member, such as `$.origin.kind`.
 * JSON allows `\u0000` and lone surrogates, which text in PostgreSQL does not: they read U+FFFD in their place.
 * `JSON.stringify` escapes no surrogates but lone ones.
 */
export const functionsForJson = String.raw`
  CREATE FUNCTION readable_json(document text) RETURNS json LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN document ~ '\\u(?:0000|[dD][89a-fA-F])' THEN
      regexp_replace(document, '(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\1\\ufffd', 'g')
    ELSE document END::json
  $$;
  CREATE FUNCTION json_extract(document text, path text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT readable_json(document) #>> string_to_array(substr(path, 3), '.')
  $$;
  CREATE FUNCTION json_type(document text, path text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT json_typeof(readable_json(document) #> string_to_array(substr(path, 3), '.'))
  $$;
  CREATE FUNCTION json_tree(document text) RETURNS TABLE (key text, type text, value text)
  LANGUAGE sql IMMUTABLE AS $$
    WITH RECURSIVE tree (key, node) AS (
      SELECT NULL::text, readable_json(document)
      UNION ALL
      SELECT child.key, child.node FROM tree, LATERAL (
        SELECT * FROM json_each(CASE json_typeof(node) WHEN 'object' THEN node ELSE '{}' END)
        UNION ALL
        SELECT NULL, element FROM
          json_array_elements(CASE json_typeof(node) WHEN 'array' THEN node ELSE '[]' END) element
      ) AS child (key, node)
    )
    SELECT key, CASE json_typeof(node) WHEN 'string' THEN 'text' ELSE json_typeof(node) END,
      node #>> '{}' FROM tree
  $$;
`;
