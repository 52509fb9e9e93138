# The outcome of each test in the output of go test -json, without its subtests, a line each: outcome,
# package, test, seconds, and what it said when it was skipped. $limit: the seconds after which one is
# slow. $bare: a skip that says why is allowed. A package that failed though no test of it did, or that
# never ended, has a line of its own. What fails in a package with a data race or a panic is certain: a
# second run would prove nothing against it.
reduce (inputs | fromjson? | select(.Package)) as $e ({};
  if $e.Action == "start" then .[$e.Package].ended = false
  elif $e.Action == "output" then
    if $e.Output | test("DATA RACE|^panic: |^fatal error: ") then .[$e.Package].certain = true
    elif $e.Test and ($e.Output | test("^ +[a-z0-9_]+\\.go:[0-9]+: ")) then
      .[$e.Package].said[$e.Test] = ($e.Output | sub(".*?\\.go:[0-9]+: "; "") | rtrimstr("\n"))
    else . end
  elif $e.Action | IN("pass", "fail", "skip") | not then .
  elif $e.Test then .[$e.Package].tests[$e.Test] = [$e.Action, $e.Elapsed]
  else .[$e.Package].ended = $e.Action end)
| to_entries[] | .key as $package | .value as $p
| [$p.tests // {} | to_entries[] | select(.key | contains("/") | not)] as $tests
| ($tests[] | .value as [$ended, $seconds] | ($p.said[.key] // "") as $said
    | [if $ended == "fail" then if $p.certain then "certain" else "failed" end
       elif $ended == "skip" then if $bare and $said != "" then "skipped" else "certain" end
       elif $seconds > $limit then "slow"
       else "passed" end, $package, .key, $seconds, if $ended == "skip" then $said else "" end]),
  (select($p.ended == false or $p.ended == "fail" and ($tests | any(.value[0] == "fail") | not))
    | ["certain", $package, "-", 0, ""])
| @tsv
