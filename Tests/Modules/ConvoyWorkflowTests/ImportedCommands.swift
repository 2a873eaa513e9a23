/// Command lines of curl for ``ImportedRequestTests``. `URL` and `DIR` are replaced by the server and a directory with files.
enum ImportedCommands {
    /// Commands, one per line, for which Convoy sends the same request as curl.
    static let equal = lines(
        #"""
        curl URL/x
        curl URL
        curl URL/a/../b/./c
        curl --location-trusted -u ada:pw URL/x
        curl 'URL/x?a=b&c=d'
        curl "URL/x?a=b&c=d"
        curl URL/x\?a=b\&c=d
        curl 'URL/x?'
        curl 'URL/x?a=b#fragment'
        curl 'URL/x?a=%20+%2B'
        curl 'URL/é?ü=ö'
        curl -g 'URL/{a}[1]|"<>`^?q={x}[2]'
        curl URL/a+b~c,d;e
        curl 'URL/a+b~c,d;e=f@g:h!i$j*k(l)'
        curl 'URL//double//slash'
        curl 'URL/%2e%2e/%41'
        curl URL/trailing/
        curl --url URL/x
        curl --silent --show-error --fail URL/x
        curl -sSL --compressed URL/x
        curl -sSfvk URL/x
        curl -I URL/x
        curl --head URL/x
        curl -X HEAD -I URL/x
        curl -X DELETE URL/x
        curl -XDELETE URL/x
        curl --request PATCH URL/x
        curl -X OPTIONS URL/x
        curl -X PROPFIND URL/x
        curl -X POST URL/x
        curl -X PUT URL/x
        curl -X PURGE URL/x -H 'X-A: b'
        curl -X post2 URL/x
        curl -d a=b URL/x
        curl -da=b URL/x
        curl --data a=b URL/x
        curl --data-ascii a=b URL/x
        curl -d a=b -d c=d URL/x
        curl -d 'a=b&c=d' URL/x
        curl -d a=b -d a=c URL/x
        curl -d a=b -d x=y -d a=c URL/x
        curl -d 'a=b c' URL/x
        curl -d 'a=b+c&d=%26' URL/x
        curl -d 'a=100%' URL/x
        curl -d 'a=%FF' URL/x
        curl -d 'a=b&&c=d' URL/x
        curl -d 'a' URL/x
        curl -d 'a=' URL/x
        curl -d '=b' URL/x
        curl -d '' URL/x
        curl -d 'a=é' URL/x
        curl -d 'a=${x}' URL/x
        curl -d '${x}=1' URL/x
        curl -d '$${x}' URL/x
        curl -X PUT -d a=b URL/x
        curl -X DELETE -d a=b URL/x
        curl -X GET -d a=b URL/x
        curl -X GET -H 'Content-Type: application/json' -d '{"query": {}}' URL/x
        curl -X PATCH --data '{"a":1}' -H 'Content-Type: application/json' URL/x
        curl -d '{"a":1}' URL/x
        curl -d '{"a": 1, "b": [1, 2.0, 1e3, true, null, "é\n\u00e9\/"]}' -H 'Content-Type: application/json' URL/x
        curl -d '{"a":1}' -H 'content-type: application/json; charset=utf-8' URL/x
        curl -d '{"a":1,"a":2}' -H 'Content-Type: application/json' URL/x
        curl -d '{"a":"${x} $y"}' -H 'Content-Type: application/json' URL/x
        curl -d '{"${k}":1}' -H 'Content-Type: application/json' URL/x
        curl -d '{"n":12345678901234567890,"m":1.10}' -H 'Content-Type: application/json' URL/x
        curl -d '{not json' -H 'Content-Type: application/json' URL/x
        curl -d '[]' -H 'Content-Type: application/json' URL/x
        curl -d '"text"' -H 'Content-Type: application/json' URL/x
        curl -d 'true' -H 'Content-Type: application/json' URL/x
        curl -d '{"a":1}' -H 'Content-Type: application/vnd.api+json' URL/x
        curl -d '<a/>' -H 'Content-Type: text/xml' URL/x
        curl -d plain -H 'Content-Type: text/plain' URL/x
        curl -d plain -H 'Content-Type:' URL/x
        curl -d plain -H 'Content-Type;' URL/x
        curl -d 'a=b' -H 'Content-Type: application/x-www-form-urlencoded; charset=UTF-8' URL/x
        curl -d ' leading and trailing ' -H 'Content-Type: text/plain' URL/x
        curl -d '# comment: "quoted" {x}' -H 'Content-Type: text/plain' URL/x
        curl -d 'true' -H 'Content-Type: text/plain' URL/x
        curl -d '12' -H 'Content-Type: text/plain' URL/x
        curl --json '{"a":1}' URL/x
        curl --json '{"a":' --json '1}' URL/x
        curl --json '{"a":1}' -H 'Accept: text/plain' URL/x
        curl --json '{"a":1}' -H 'Content-Type: application/json; v=1' URL/x
        curl --json @DIR/d.json URL/x
        curl -X PUT --json '[1]' URL/x
        curl --data-raw '@file' URL/x
        curl --data-raw 'a=b' URL/x
        curl --data-binary 'a=b' URL/x
        curl --data-binary @DIR/bytes URL/x
        curl --data-binary @DIR/d.json -H 'Content-Type: application/json' URL/x
        curl -d @DIR/line URL/x
        curl --data-urlencode 'q=a b&c' URL/x
        curl --data-urlencode 'a b' URL/x
        curl --data-urlencode '=a=b' URL/x
        curl --data-urlencode 'é=é' URL/x
        curl --data-urlencode 'a=*~-._!' --data-urlencode 'b=1' URL/x
        curl --data-urlencode 'comment=it is 100% "x"' -d y=z URL/x
        curl -G -d q=1 -d r=2 URL/x
        curl -G -d q=1 'URL/x?a=b'
        curl -G --data-urlencode 'q=a b' URL/x
        curl -G -d q=1 'URL/x#fragment'
        curl -G -I -d q=1 URL/x
        curl -G -X POST -d q=1 URL/x
        curl -G URL/x
        curl --url-query 'a=b c' URL/x
        curl --url-query '+a=b%20c' URL/x
        curl --url-query a=1 --url-query b=2 'URL/x?z'
        curl --url-query a=1 -d c=d URL/x
        curl --url-query 'a b' URL/x
        curl -H 'X-A: b' URL/x
        curl -HX-A:b URL/x
        curl --header 'X-A: b: c' URL/x
        curl -H 'X-A:    spaces   ' URL/x
        curl -H 'X-Empty;' URL/x
        curl -H 'X-Gone:' URL/x
        curl -H 'X-A: 1' -H 'X-A: 2' -H 'x-a: 3' URL/x
        curl -H 'X-Quote: "a" '"'"'b'"'"' \c' URL/x
        curl -H 'X-Template: ${a} $${b} $c' URL/x
        curl -H "X-Price: \$5 \"q\" \`c\` \\d" URL/x
        curl -H 'Accept: text/html' URL/x
        curl -H 'Accept-Language: de, en;q=0.5' URL/x
        curl -H 'User-Agent: me/1' URL/x
        curl -A me/1 URL/x
        curl -A me/1 -H 'User-Agent: you/2' URL/x
        curl -A a -A b URL/x
        curl -e http://r.test/ URL/x
        curl -e http://r.test/ -H 'Referer: http://s.test/' URL/x
        curl -e 'http://r.test/' -e '' URL/x
        curl -H 'Host: other.test' URL/x
        curl -H 'Origin: https://o.test' -H 'Sec-Fetch-Mode: cors' -H 'DNT: 1' -H 'Priority: u=1, i' URL/x
        curl -H 'If-None-Match: "x"' -H 'If-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT' URL/x
        curl -r 0-99 URL/x
        curl -r -5 URL/x
        curl -r 0-4 -H 'Range: bytes=2-3' URL/x
        curl -b 'a=b; c=d' URL/x
        curl -b a=b -b c=d URL/x
        curl -H 'Cookie: a=b' URL/x
        curl --cookie 'sid="quoted"; x=1=2' URL/x
        curl -u ada:pw URL/x
        curl -u 'ada:p:w ü' URL/x
        curl --user ada: URL/x
        curl -u ada:pw --basic URL/x
        curl -u ada:pw -X POST -d a=b URL/x
        curl http://ada:pw@HOST/x
        curl http://ada:p%40w@HOST/x
        curl http://ada@HOST/x
        curl -u bob:pw2 http://ada:pw@HOST/x
        curl --digest -u ada:pw URL/digest
        curl --anyauth -u ada:pw URL/digest
        curl --anyauth -u ada:pw URL/open
        curl --oauth2-bearer tok123 URL/x
        curl -H 'Authorization: Bearer tok123' URL/x
        curl -H 'Authorization: Bearer tok123' -u ada:pw URL/x
        curl -H 'Authorization: Basic YTpi' URL/x
        curl -H 'Authorization:' -u ada:pw URL/x
        curl -H 'X-Api-Key: 0123456789abcdef' URL/x
        curl 'URL/x?api_key=0123456789abcdef&b=c'
        curl 'URL/x?access_token=a%2Fb%2Bc'
        curl -d 'user=ada&password=correct horse' URL/x
        curl -d 'password=a&x=1&password=b' URL/x
        curl --json '{"user":"ada","password":"correct-horse","token":{"value":"abcdef123456"}}' URL/x
        curl -d '{"password":"p\u00e9ssword","a":1,"a":2}' -H 'Content-Type: application/json' URL/x
        curl -F a=b URL/x
        curl -F a=b -F c=d URL/x
        curl --form a=b URL/x
        curl -F a=1 -F a=2 URL/x
        curl -F 'a=b;type=text/x' URL/x
        curl -F 'a={"b":1};type=application/json' URL/x
        curl -F 'a="b;c"' URL/x
        curl -F 'a=x;filename=q.txt' URL/x
        curl -F 'f=@DIR/f.txt' URL/x
        curl -F 'f=@DIR/d.json' URL/x
        curl -F 'f=@DIR/bytes' URL/x
        curl -F 'f=@DIR/f.txt;type=image/png' URL/x
        curl -F 'f=@DIR/f.txt;filename=other.csv' URL/x
        curl -F 'f=@"DIR/f.txt";filename="a;b.txt"' URL/x
        curl -F 'f=@DIR/p.png' -F 'f=@DIR/f.txt' -F note=hi URL/x
        curl -F 'f[]=@DIR/f.txt' -F 'f[]=@DIR/d.json' URL/x
        curl --form-string 'a=@b;c' URL/x
        curl --form-string 'a=<b' URL/x
        curl -F 'a"b=c' URL/x
        curl -F password=hunter22 -F user=ada URL/x
        curl -X PUT -F a=b URL/x
        curl -F a=b -H 'Content-Type: multipart/form-data' URL/x
        curl -F 'a=é ü' URL/x
        curl -T DIR/f.txt URL/dir/
        curl -T DIR/f.txt URL
        curl -T DIR/f.txt URL/name
        curl -T DIR/f.txt 'URL/dir/?a=b'
        curl -T 'DIR/with space' URL/dir/
        curl -T DIR/d.json URL/x -H 'Content-Type: application/json'
        curl -T DIR/f.txt -X POST URL/x
        curl --upload-file DIR/bytes URL/x
        curl -T - URL/x < DIR/f.txt
        curl --data-binary @- URL/x < DIR/f.txt
        curl -d @- URL/x <<< 'a=b'
        curl URL/{a,b}
        curl 'URL/{a,b}/[1-3]'
        curl 'URL/[01-10:4].txt'
        curl 'URL/[a-c]'
        curl 'URL/\{x\}'
        curl URL/a URL/b
        curl URL/a --next -d x=y URL/b
        curl -d x=y URL/a URL/b
        curl -T DIR/f.txt URL/a -T DIR/d.json URL/b
        curl -H "Authorization: Bearer $TOKEN" URL/x
        curl -H "Authorization: Bearer ${TOKEN}" -H 'X-Literal: $TOKEN' URL/x
        curl -u "ada:$PASS" URL/x
        curl "URL/x?q=$WORD"
        curl -d "{\"a\":\"$WORD\"}" -H 'Content-Type: application/json' URL/x
        curl -d "q=$WORD&r=1" URL/x
        curl -F "q=$WORD" URL/x
        T=abc; curl -H "X-T: $T" URL/x
        export T=abc && curl -H "X-T: $T" URL/x
        T=x curl URL/x
        command curl URL/x
        curl -d $'caf\xc3\xa9 \303\251 \u00e9 \U0001F600' -H 'Content-Type: text/plain' URL/x
        curl -d $'tab\tnl\nq\'bs\\ \a\b\e\f\v\cA' -H 'Content-Type: text/plain' URL/x
        curl --data-raw $'{"a":"it\'s\\n\u0021"}' -H 'Content-Type: application/json' URL/x
        curl -d $'a\x00b' -H 'Content-Type: text/plain' URL/x
        curl -H $'X-A: \'b\'' URL/x
        curl -d $"a=b" URL/x
        curl URL/x # a 'comment
        curl URL/x | cat
        curl URL/x > /dev/null 2>&1
        curl -o /dev/null -w '%{http_code}' URL/x
        curl -o DIR/out URL/x -H 'Accept: a/b'
        curl --max-time 5 --connect-timeout 2 --retry 1 URL/x
        curl -4 --http1.1 URL/x
        curl -0 URL/x
        curl --http1.0 -d a=b -H 'Expect: 100-continue' URL/x
        curl --http1.1 -0 URL/x
        curl -0 --http1.1 URL/x
        curl --path-as-is URL/a/../b
        curl --path-as-is 'URL/../../a/./%2e%2E/b?c=/../d'
        curl --resolve a.test:PORT:127.0.0.1 http://a.test:PORT/x
        curl --connect-to a.test:80:HOST http://a.test/x
        curl --data-bin a=b --heade 'X-A: b' URL/x
        curl -X POST URL/x -H 'Content-Length: 0'
        curl -X POST URL/x -H 'Transfer-Encoding: chunked' -d abc
        curl -H 'Expect:' -d a=b URL/x
        """#)

    /// Commands of several lines for which Convoy sends the same request as curl.
    static let equalBlocks = [
        "curl URL/x \\\n  -H 'X-A: b' \\\n  -d a=b",
        "# fetch\ncurl URL/a\ncurl -d a=b URL/b\n",
        "curl URL/x -H 'Content-Type: text/plain' -d '\nline 1\n  line 2\n'",
        "curl -H 'Content-Type: application/json' -d @- URL/x <<'EOF'\n{\"a\": \"$x\"}\nEOF\n",
        "curl -H 'Content-Type: text/plain' --data-binary @- URL/x <<EOF\nb $TOKEN \\$c\nd\nEOF\n",
        "for_name=x\ncurl \"URL/$for_name\"",
        """
        curl 'URL/api/items?limit=5' \\
          -H 'accept: application/json, text/plain, */*' \\
          -H 'accept-language: en-US,en;q=0.9' \\
          -H 'content-type: application/json' \\
          -b 'sid=0123456789; theme=dark' \\
          -H 'origin: https://app.test' \\
          -H 'sec-ch-ua: "Chromium";v="124", "Not-A.Brand";v="99"' \\
          -H 'sec-ch-ua-mobile: ?0' \\
          -H 'user-agent: Mozilla/5.0 (X11; Linux x86_64)' \\
          --data-raw '{"name":"Ada","tags":["a","b"]}'
        """,
    ]

    /// Commands for which Convoy cannot send the same request as curl, and therefore adds a note or rejects the
    /// command.
    static let announced = lines(
        #"""
        curl -I -X GET -d a=b URL/x
        curl --aws-sigv4 osc:osc:eu:s3 -u AKIAKEY:SECRETKEY URL/x
        curl --ntlm -u ada:pw URL/x
        curl --negotiate -u ada:pw URL/x
        curl -d @DIR/f.txt URL/x
        curl -d @DIR/line -d x=y URL/x
        curl -F 'f=@DIR/f.txt,DIR/d.json' URL/x
        curl -F 'f=<DIR/f.txt' URL/x
        curl -F a=1 -F b=2 -F a=3 URL/x
        curl -F 'a=x;filename=q.unknown' URL/x
        curl -F 'a=x;headers="X-A: b"' URL/x
        curl -F a=b -H 'Content-Type: multipart/mixed' URL/x
        curl -H @DIR/headers URL/x
        curl -b DIR/jar URL/x
        curl -z 'Mon, 01 Jan 2024 00:00:00 GMT' URL/x
        curl -C 5 URL/x
        curl --request-target '*' -X OPTIONS URL
        curl --data-urlencode q@DIR/f.txt URL/x
        curl --data-urlencode @DIR/f.txt URL/x
        curl --url-query q@DIR/f.txt URL/x
        echo a=b | curl -d @- URL/x
        echo hi | curl -T - URL/x
        curl -H "X-Date: $(date)" URL/x
        curl -H "X-Date: `date`" URL/x
        curl "URL/x?q=${WORD:-none}"
        curl "URL/$1"
        curl URL/x?a=b&c=d
        (curl URL/x)
        curl --variable a=b --expand-url URL/x
        curl -K DIR/config
        curl -H 'Host:' URL/x
        curl -A a -H 'User-Agent: b' -H 'User-Agent: c' URL/x
        curl -d $'caf\xe9' -H 'Content-Type: text/plain' URL/x
        curl -X get URL/x
        curl ftp://HOST/x
        curl 'URL/[1-5000]'
        curl 'URL/[x'
        curl -T '{DIR/f.txt,DIR/d.json}' URL/dir/
        curl --telnet-option a URL/x
        curl -x "$PROXY" URL/x
        curl --tr-encoding URL/x
        curl
        """#)

    private static func lines(_ text: String) -> [String] { text.split(separator: "\n" as Character).map(String.init) }
}
